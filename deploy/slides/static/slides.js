// The shape of a slide follows the screen: 16:9 or 4:3. Content larger than its slide is shrunk, then cut.
(() => {
  const HEIGHT = 720;
  const SMALLEST_PX = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--smallest"));
  const LARGEST_PX = {
    terminal: 44, code: 40, table: 38, recap: 36, home: 38, statement: 36, question: 34, numbers: 34, exercise: 34,
  };
  const sections = [...document.querySelectorAll(".slides > section")];
  const slides = document.querySelector(".slides");
  const shape = new URLSearchParams(location.search).get("shape");

  function width() {
    const narrow = shape ? shape === "4:3" : innerWidth / innerHeight < 1.5;
    return narrow && !(isPrinted && !shape) ? 960 : 1280;
  }

  const isPrinted = new URLSearchParams(location.search).has("print-pdf");

  function overflows(element) {
    return element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1;
  }

  function narrow(pre) { // shrink long lines without the text above them
    pre.style.fontSize = "";
    if (pre.closest(".terminal")) return;
    let size = parseFloat(getComputedStyle(pre).fontSize);
    while (overflows(pre) && size > SMALLEST_PX) pre.style.fontSize = `${(size = Math.max(size - 1, SMALLEST_PX))}px`;
  }

  function isLargerBeside(body) { // a picture with its numbers beside it instead of below
    const image = body.querySelector(":scope > .picture img");
    const strip = body.querySelector(":scope > .strip");
    if (!image || !strip || !image.naturalWidth) return false;
    const scale = () => Math.min(
      image.parentElement.clientWidth / image.naturalWidth, image.parentElement.clientHeight / image.naturalHeight,
    );
    body.classList.remove("beside");
    const below = scale();
    body.classList.add("beside");
    return scale() > 1.04 * below;
  }

  function cut(body, isFull) { // the last lines and rows, which the notebook has
    for (const pre of [...body.querySelectorAll("pre")].reverse()) {
      if (!isFull()) return;
      const line = parseFloat(getComputedStyle(pre).lineHeight);
      let lines = Math.ceil(pre.scrollHeight / line);
      pre.classList.add("cut");
      while (isFull() && lines > 4) pre.style.setProperty("--lines", --lines);
    }
    while (isFull()) {
      const bottom = (row) => row.getBoundingClientRect().bottom;
      const rows = [...body.querySelectorAll("li, tr, .strip .what small")].filter((row) => row.offsetHeight);
      const last = rows.reduce((one, other) => (bottom(other) >= bottom(one) ? other : one), rows[0]);
      if (!last) return;
      last.hidden = true;
      if (last.matches("li, tr")) last.closest("ul, ol, table").classList.add("cut");
    }
  }

  function shrink(section) {
    const title = section.querySelector("h2");
    const body = section.querySelector(".body");
    title.style.fontSize = "";
    body.style.removeProperty("--size");
    const highest = section.classList.contains("question") ? 190 : 128;
    for (let size = 50; size >= 26 && title.offsetHeight > highest; size -= 2) {
      title.style.fontSize = `${size}px`;
    }
    const isFull = () => {
      body.querySelectorAll("pre").forEach(narrow);
      return overflows(body) || [...body.querySelectorAll(".frame, pre:not(.cut), .columns > div")].some(overflows);
    };
    const largest = Math.max(28, ...[...section.classList].map((kind) => LARGEST_PX[kind] ?? 0));
    const shrinkTo = (smallest) => {
      for (let size = largest; size >= smallest; size -= 1) {
        body.style.setProperty("--size", `${size}px`);
        if (!isFull()) return true;
      }
      return false;
    };
    body.classList.toggle("beside", isLargerBeside(body));
    body.classList.remove("wraps");
    body.querySelectorAll(".cut").forEach((element) => element.classList.remove("cut"));
    body.querySelectorAll("[hidden]").forEach((element) => { element.hidden = false; });
    if (shrinkTo(section.classList.contains("terminal") ? 22 : SMALLEST_PX)) return;
    body.classList.add("wraps"); // long lines: better wrapped than too small
    if (!shrinkTo(SMALLEST_PX)) cut(body, isFull);
  }

  function fit() {
    const before = slides.style.cssText;
    slides.style.cssText += `;width:${width()}px;height:${HEIGHT}px`;
    for (const section of sections) {
      const given = section.style.cssText;
      section.style.cssText = `display:flex !important;position:absolute;width:${width()}px`;
      shrink(section);
      section.style.cssText = given;
    }
    slides.style.cssText = before;
  }

  const settings = {
    width: width(),
    height: HEIGHT,
    margin: 0,
    minScale: 0.1,
    maxScale: 4,
    center: false,
    display: "flex",
    hash: true,
    controls: false,
    progress: true,
    slideNumber: "c/t",
    transition: "none",
    backgroundTransition: "none",
    navigationMode: "linear",
    scrollActivationWidth: null,
    pdfSeparateFragments: true,
    pdfMaxPagesPerSlide: 1,
    plugins: [RevealNotes],
  };
  addEventListener("load", () => { // now the sizes of pictures are known
    fit();
    Reveal.initialize(settings);
  });
  addEventListener("resize", () => {
    if (isPrinted || Reveal.getConfig().width === width()) return;
    Reveal.configure({ width: width() });
    fit();
  });
})();
