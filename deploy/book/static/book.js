// Moving diagrams begin to move only when asked; on paper their frames stand one below the other,
// which book.css does. Here: the arrow keys step the diagram that was touched last.
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
// Pages that were opened from files may not read each other: the search then shows titles alone.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
