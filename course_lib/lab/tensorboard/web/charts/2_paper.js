// What all charts share: the sheet, its events, colours, text and the box beside the pointer.

const COLOURS = ["#0072b2", "#d55e00", "#00846b", "#b5588f", "#e69f00", "#56b4e9", "#7a4e2d", "#8a8d91",
  "#7fb8dc", "#f0a070", "#7cc4b2", "#dcaecb"];
const INK = "#1b1b1b";
const QUIET = "#5f6368";
const FAINT = "#d9dce0";
const LEGEND_PX = 18;

function colourOf(options, index) {
  const given = options.colors && options.colors.length ? options.colors : COLOURS;
  return given[index % given.length];
}

function element(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes || {}).forEach(([key, value]) => made.setAttribute(key, value));
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function shortened(text, pixels, fontPx = 12) {
  const most = Math.max(1, Math.floor(pixels / (fontPx * 0.58)));
  return text.length <= most ? text : `${text.slice(0, Math.max(most - 1, 1))}…`;
}

// The plugin's tooltips are HTML made of names from the trace, and a kernel may be named
// "foo<T>": only line breaks and bold are taken as tags, the rest is text.
function richText(html, parent) {
  let bold = false;
  String(html).split(/(<br\s*\/?>|<\/?b>|<\/?div[^>]*>)/i).forEach((piece) => {
    if (/^<br/i.test(piece)) parent.appendChild(document.createElement("br"));
    else if (/^<b>/i.test(piece)) bold = true;
    else if (/^<\/b>/i.test(piece)) bold = false;
    else if (piece && !/^<\/?div/i.test(piece)) {
      const span = document.createElement(bold ? "b" : "span");
      span.textContent = piece;
      parent.appendChild(span);
    }
  });
}

class Chart {
  constructor(container) {
    this.container = container;
    this.listeners = {};
    this.selection = [];
    this.clearChart();
  }

  clearChart() {
    this.container.textContent = "";
    this.svg = null;
    this.tip = null;
  }

  listen(event, action) {
    (this.listeners[event] = this.listeners[event] || []).push(action);
  }

  tell(event, facts) {
    (this.listeners[event] || []).forEach((action) => action(facts));
  }

  getSelection() {
    return this.selection;
  }

  setSelection(selection) {
    this.selection = selection || [];
    this.drawSelection();
  }

  drawSelection() {}

  open(table, options) {
    this.clearChart();
    this.table = table;
    this.options = options || {};
    const box = this.container.getBoundingClientRect();
    this.width = Math.max(Math.floor(box.width || this.container.clientWidth || 600), 120);
    this.height = Number(this.options.height) || 300;
    // Out of the page's flow: a drawing with a width of its own would keep its column from shrinking.
    this.container.style.cssText = `position:relative;width:100%;height:${this.height}px`;
    this.svg = element("svg", {
      width: this.width, height: this.height, role: "img", "font-family": "sans-serif",
      "font-size": 12, "aria-label": this.options.title || "chart", style: "position:absolute;left:0;top:0",
    });
    this.container.appendChild(this.svg);
    if (this.options.title) {
      element("text", { x: 8, y: 16, "font-weight": "bold", fill: INK }, this.svg,
        shortened(this.options.title, this.width - 16, 13));
    }
    this.tip = document.createElement("div");
    this.tip.style.cssText = "display:none;position:absolute;z-index:9;pointer-events:none;" +
      "background:#fff;border:1px solid #8a8d91;padding:6px 9px;font:12px sans-serif;" +
      "box-shadow:0 1px 4px #0004;max-width:28rem;overflow-wrap:anywhere";
    this.container.appendChild(this.tip);
  }

  showTip(x, y, html) {
    this.tip.textContent = "";
    richText(html, this.tip);
    this.tip.style.display = "block";
    const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(left, 2)}px`;
    this.tip.style.top = `${Math.max(y - this.tip.offsetHeight - 10, 2)}px`;
  }

  hideTip() {
    if (this.tip) this.tip.style.display = "none";
  }

  hover(shape, html) {
    shape.addEventListener("mousemove", (event) => {
      const box = this.container.getBoundingClientRect();
      this.showTip(event.clientX - box.left, event.clientY - box.top, html);
    });
    shape.addEventListener("mouseleave", () => this.hideTip());
  }

  // In rows under the chart; returns the height it took.
  legendBelow(labels) {
    const widths = labels.map((label) => Math.min(label.length * 7 + 34, this.width / 2));
    const rows = [[]];
    let used = 0;
    widths.forEach((width, index) => {
      if (used + width > this.width - 20 && rows[rows.length - 1].length) {
        rows.push([]);
        used = 0;
      }
      rows[rows.length - 1].push(index);
      used += width;
    });
    const height = rows.length * LEGEND_PX + 6;
    rows.forEach((row, line) => {
      let x = (this.width - row.reduce((sum, index) => sum + widths[index], 0)) / 2;
      const y = this.height - height + 12 + line * LEGEND_PX;
      row.forEach((index) => {
        element("rect", { x, y: y - 9, width: 11, height: 11, fill: colourOf(this.options, index) }, this.svg);
        element("text", { x: x + 16, y, fill: INK }, this.svg, shortened(labels[index], widths[index] - 20));
        x += widths[index];
      });
    });
    return height;
  }
}

function niceTicks(low, high, count = 5) {
  if (!(high > low)) high = low + 1;
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}
