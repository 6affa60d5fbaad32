// Served instead of webcomponents if set-up could not install it (no npm on the machine).
document.addEventListener("DOMContentLoaded", function () {
  document.body.style.overflow = "auto";
  document.body.innerHTML =
    '<div style="font:16px/1.6 sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem">' +
    "<h2>The Trace view is not installed</h2>" +
    "<p>It needs one package that the set-up of the course takes from npm, and npm was not there " +
    "when it ran. Install Node.js (which brings npm), run <code>make setup</code> again, and " +
    "reload this page.</p><p>Meanwhile the notebook draws the same trace itself:</p>" +
    "<pre style='background:#f5f7f9;padding:1rem'>show.timeline(run.profile)</pre></div>";
});
