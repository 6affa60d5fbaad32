// Turns the frames of a moving diagram into one that is stepped through. Where no script runs, all
// frames stay visible, one below the other.
(() => {
  const root = document.currentScript.parentElement;
  const frames = [...root.querySelectorAll("figure")];
  const [back, play, on] = root.querySelectorAll("button");
  const part = (selector) => root.querySelector(selector);
  const [slider, speed, live] = ["input", "select", "[aria-live]"].map(part);
  const [toPlay, toPause] = [play.textContent, part("[role=group]").dataset.pause];
  const last = frames.length - 1;
  const FRAME_MS = 1400;
  let [now, timer] = [0, 0];

  function show(number) {
    now = Math.min(Math.max(number, 0), last);
    frames.forEach((frame, index) => { frame.hidden = index !== now; });
    slider.value = now;
    slider.ariaValueText = frames[now].querySelector("figcaption").textContent;
    // A disabled button would lose the focus.
    back.style.opacity = now === 0 ? 0.5 : 1;
    on.style.opacity = now === last ? 0.5 : 1;
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = toPlay;
    live.ariaLive = "polite";
  }

  function step() {
    show(now === last ? 0 : now + 1);
    if (now === last || !root.isConnected) stop();
    else timer = setTimeout(step, FRAME_MS / speed.value);
  }

  function start() {
    live.ariaLive = "off"; // a screen reader cannot keep up with a film
    play.textContent = toPause;
    step();
  }

  back.onclick = () => { stop(); show(now - 1); };
  on.onclick = () => { stop(); show(now + 1); };
  play.onclick = () => { if (timer) stop(); else start(); };
  slider.oninput = () => { stop(); show(Number(slider.value)); };
  root.onkeydown = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    root.closest(".jp-Cell")?.focus(); // back to the keys of the notebook
  };
  play.ariaLabel = play.title = ""; // its text changes
  part("[role=group]").hidden = false;
  show(0);
})();
