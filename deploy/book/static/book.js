// Animated diagrams start only on request; in print book.css shows their frames one below the other.
// Here: the arrow keys step the diagram that was used last.
(() => {
  let touched = null;
  const steppers = [...document.querySelectorAll("[data-lm-suppress-shortcuts]")];
  for (const stepper of steppers) {
    stepper.addEventListener("pointerdown", () => { touched = stepper; });
  }
  document.addEventListener("keydown", (event) => {
    const writes = event.target.closest("input, textarea, select");
    if (!touched || writes || event.altKey || event.ctrlKey || event.metaKey) return;
    const [back, , on] = touched.querySelectorAll("button");
    if (event.key === "ArrowLeft") back.click();
    else if (event.key === "ArrowRight") on.click();
  });
})();
// Pages that are opened as files may not read each other, so the search shows only titles.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
// What the theme tells a screen reader, put right; what scrolls can be reached by keys.
for (const caption of document.querySelectorAll(".sidebar-tree .caption")) caption.removeAttribute("role");
for (const fold of document.querySelectorAll("summary[aria-label]")) fold.removeAttribute("aria-label");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
(() => {
  const boxes = document.querySelectorAll(".highlight pre, .output, .table-wrapper, .content figure");
  const reach = () => {
    const wide = [...boxes].map((box) => box.scrollWidth > box.clientWidth);
    boxes.forEach((box, number) => box.toggleAttribute("tabindex", wide[number]) && (box.tabIndex = 0));
  };
  for (const event of ["load", "resize", "toggle"]) addEventListener(event, reach, true);
})();
