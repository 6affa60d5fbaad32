// Of every slide, in all of its steps: what lies outside of it, and what is too small to read.
() => {
  const problems = [];
  const SMALLEST_PX = 20;
  const isShown = (element) => {
    const style = getComputedStyle(element);
    return style.visibility !== "hidden" && style.display !== "none";
  };
  for (let number = 0; number < Reveal.getTotalSlides(); number += 1) {
    Reveal.slide(number, 0, -1);
    do {
      const slide = Reveal.getCurrentSlide();
      const told = (what) => problems.push(`${slide.id || slide.className}: ${what}`);
      const box = slide.getBoundingClientRect();
      // reveal.js rounds its scale to hundredths
      if (box.bottom > innerHeight + 4 || box.right > innerWidth + 4) told("is larger than the window");
      const body = slide.querySelector(".body");
      const within = (inner, outer, what) => {
        const [a, b] = [inner.getBoundingClientRect(), outer.getBoundingClientRect()];
        const out = Math.max(b.left - a.left, b.top - a.top, a.right - b.right, a.bottom - b.bottom);
        if (a.width && a.height && out > 1.5 * Math.max(1, Reveal.getScale())) told(`${what} sticks out by ${Math.round(out)} px`);
      };
      within(slide.querySelector("h2"), slide, "the title");
      const foot = slide.querySelector(".foot");
      if (foot) within(foot, slide, "the foot");
      if (foot && foot.getBoundingClientRect().top < body.getBoundingClientRect().bottom - 1) told("the foot covers the body");
      for (const element of body.querySelectorAll("*")) {
        if (element.closest("svg") && element.tagName !== "svg") continue;
        if (isShown(element) && !element.closest("pre.cut")?.contains(element.parentElement)) within(element, body, element.tagName.toLowerCase());
      }
      for (const pre of body.querySelectorAll("pre")) {
        if (!pre.matches(".cut") && pre.scrollWidth > pre.clientWidth + 1) told("code is cut off at the right");
      }
      for (const element of slide.querySelectorAll("*")) {
        const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!isText || !element.offsetParent || element.closest("svg, aside")) continue;
        const size = parseFloat(getComputedStyle(element).fontSize);
        if (size < SMALLEST_PX - 0.01) told(`letters of ${size} px`);
      }
      for (const unit of body.querySelectorAll(".value small")) {
        if (!unit.offsetHeight && isShown(unit.closest(".number"))) told("a number without its unit");
      }
      for (const number of body.querySelectorAll(".number")) {
        const words = number.querySelector(".what")?.innerText.trim().split(/\s+/) ?? [];
        if (number.querySelector(".value") && words.length < 3) told("a number without a sentence");
      }
    } while (Reveal.availableFragments().next && (Reveal.nextFragment(), true));
  }
  return [...new Set(problems)];
}
