// An extension of JupyterLab, written by hand in the form in which JupyterLab loads built ones.
//
// A lesson's claims and explanation would stand beside the question whose answer they give.
// `course build` tags these cells `after-guess`. They are hidden until the cell above them that
// compares the guess has run, or until the learner shows them. Then the tag is removed, so that a
// saved notebook keeps what was shown. Other viewers ignore the tag and show every cell.
(() => {
  const TAG = "after-guess";
  const WORDS = {
    en: "Show the explanation now (it appears when your guess is compared)",
    ko: "지금 설명 보기 (예측을 비교하면 저절로 나타납니다)",
  };
  const SETTLED_MS = 100;
  // JupyterLab opens its file browser, which leaves no room for a lesson in a narrow window.
  const NARROW_PX = 900;

  const tagsOf = (cell) => cell.model.getMetadata("tags") ?? [];
  const compares = (cell) =>
    cell.model.type === "code" && cell.model.sharedModel.getSource().includes(".compare(");

  const outputsOf = ({ model: { outputs } }) =>
    Array.from({ length: outputs.length }, (_, number) => outputs.get(number));
  const hasFailed = (cell) => outputsOf(cell).some((output) => output.type === "error");

  // The tagged cells, by the cell that compares their guess.
  function folds(notebook) {
    const found = new Map();
    let comparing = null;
    for (const cell of notebook.widgets) {
      if (compares(cell)) comparing = cell;
      else if (comparing && tagsOf(cell).includes(TAG))
        found.set(comparing, [...(found.get(comparing) ?? []), cell]);
    }
    return found;
  }

  function show(cells) {
    for (const cell of cells) {
      cell.model.setMetadata("tags", tagsOf(cell).filter((tag) => tag !== TAG));
      cell.show();
    }
  }

  function button(notebook, cells, words) {
    const made = document.createElement("button");
    made.className = "jp-mod-styled course-show";
    made.textContent = words;
    made.setAttribute("aria-expanded", "false");
    made.style.marginLeft = "calc(var(--jp-cell-collapser-width) + var(--jp-cell-prompt-width))";
    made.onclick = () => {
      made.remove();
      show(cells);
      notebook.activeCellIndex = notebook.widgets.indexOf(cells[0]);
      notebook.activate();
    };
    return made;
  }

  function look(notebook, words) {
    for (const [comparing, cells] of folds(notebook)) {
      const old = comparing.node.querySelector(".course-show");
      if (outputsOf(comparing).length && !hasFailed(comparing)) {
        old?.remove();
        show(cells);
      } else {
        cells.forEach((cell) => cell.hide());
        // Shift+Enter in the failed cell went on to a cell that nobody sees.
        if (hasFailed(comparing) && cells.includes(notebook.activeCell))
          notebook.activeCellIndex = notebook.widgets.indexOf(comparing);
        if (!old) comparing.node.append(button(notebook, cells, words));
      }
    }
  }

  // A button of an output may disappear while it has the focus, as in a live panel. Its cell then
  // gets the focus. Else the page would get it, and the notebook's keys would do nothing.
  let focused = null;
  let cellOfFocused = null;
  document.addEventListener("focusin", (event) => {
    focused = event.target.closest(".jp-OutputArea") ? event.target : null;
    cellOfFocused = event.target.closest(".jp-Cell");
  });
  new MutationObserver(() => {
    if (focused && !focused.isConnected && document.activeElement === document.body)
      cellOfFocused?.focus();
  }).observe(document, { childList: true, subtree: true });

  function watch(panel, context) {
    const words = WORDS[context.path.split("/").find((folder) => folder in WORDS)] ?? WORDS.en;
    let timer = 0;
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (!panel.isDisposed) look(panel.content, words);
      }, SETTLED_MS);
    };
    context.ready.then(() => {
      look(panel.content, words);
      context.model.contentChanged.connect(later);
    });
  }

  const plugin = {
    id: "course:after-guess",
    autoStart: true,
    activate: (app) => {
      app.docRegistry.addWidgetExtension("Notebook", {
        createNew: (panel, context) => watch(panel, context),
      });
      const narrow = window.matchMedia(`(max-width: ${NARROW_PX}px)`);
      const makeRoom = () => narrow.matches && app.shell.collapseLeft();
      app.restored.then(makeRoom);
      narrow.addEventListener("change", makeRoom); // a zoom of 200 % narrows the window, too
    },
  };
  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB.course = {
    init: () => {},
    get: async () => () => ({ __esModule: true, default: plugin }),
  };
})();
