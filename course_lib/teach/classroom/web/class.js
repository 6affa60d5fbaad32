// All that learners wrote is set as text, never as HTML.
"use strict";

const REFRESH_MS = 2000;
let drawn = "";

function row(kind, values) {
  const line = document.createElement("tr");
  for (const value of values) {
    const cell = document.createElement(kind);
    cell.textContent = String(value);
    line.append(cell);
  }
  return line;
}

function table(id, columns, rows) {
  const lines = rows.map((one) => {
    const line = row("td", columns.map((name) => one[name]));
    line.classList.toggle("stuck", Boolean(one.is_stuck || one["stuck now"]));
    return line;
  });
  document.getElementById(id).replaceChildren(...(rows.length ? [row("th", columns)] : []), ...lines);
}

function draw(found) {
  document.getElementById("time").textContent = found.time || "";
  document.getElementById("problem").textContent = found.problem || "";
  const { time, ...rest } = found;
  if (JSON.stringify(rest) === drawn) return;  // a selection stays as it is
  drawn = JSON.stringify(rest);
  document.getElementById("summary").textContent = found.summary || "";
  table("learners", found.learner_columns || [], found.learners || []);
  table("exercises", found.exercise_columns || [], found.exercises || []);
  const below = (found.below || []).filter(Boolean).map((text) => {
    const line = document.createElement("li");
    line.textContent = text;
    return line;
  });
  document.getElementById("below").replaceChildren(...below);
}

async function look() {
  try {
    const answer = await fetch("table", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    draw(await answer.json());
  } catch (error) {
    document.getElementById("problem").textContent = `no answer (${error.message})`;
  }
  setTimeout(look, document.hidden ? 5 * REFRESH_MS : REFRESH_MS);
}

look();
