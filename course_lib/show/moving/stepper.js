// Turns the frames of a moving diagram into one that is stepped through. Where no script runs, all
// frames stay visible, one below the other.
(() => {
  const root = document.currentScript.parentElement;
  const frames = [...root.querySelectorAll("figure")];
  const [back, play, on] = root.querySelectorAll("button");
  const slider = root.querySelector("input");
  const [toPlay, toPause] = [play.textContent, root.querySelector("[role=group]").dataset.pause];
  const last = frames.length - 1;
  const FRAME_MS = 1400;
  let now = 0;
  let timer = 0;

  function show(number) {
    now = Math.min(Math.max(number, 0), last);
    frames.forEach((frame, index) => { frame.hidden = index !== now; });
    slider.value = now;
    slider.setAttribute("aria-valuetext", `${now + 1} of ${last + 1}`);
    back.disabled = now === 0;
    on.disabled = now === last;
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = toPlay;
  }

  function start() {
    show(now === last ? 0 : now + 1);
    play.textContent = toPause;
    timer = setInterval(() => {
      show(now + 1);
      if (now === last || !root.isConnected) stop();
    }, FRAME_MS);
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
  root.querySelector("[role=group]").hidden = false;
  show(0);
})();
