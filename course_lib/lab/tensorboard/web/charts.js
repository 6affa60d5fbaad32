// The part of Google Charts' interface that the profiler tab uses, implemented with Chart.js.
// A cell of a table is a value, or {v: value, f: text to show}.
(() => {
const COLOURS = ["#0072b2", "#d55e00", "#00846b", "#b5588f", "#e69f00", "#56b4e9", "#7a4e2d", "#8a8d91",
  "#7fb8dc", "#f0a070", "#7cc4b2", "#dcaecb"];
const INK = "#1b1b1b";
const valueOf = (cell) => (cell !== null && typeof cell === "object" && "v" in cell ? cell.v : cell);
const numberOf = (cell) => Number(valueOf(cell) ?? 0);

function textOf(cell) {
  if (cell !== null && typeof cell === "object" && "f" in cell) return String(cell.f);
  const value = valueOf(cell) ?? "";
  return typeof value === "number" ? value.toLocaleString("en-GB", { maximumSignificantDigits: 6 }) : String(value);
}

// Tooltips are HTML with names from the trace, and a kernel may be named "foo<T>".
// Only line breaks, bold and boxes are read as tags. The rest is text.
const linesOf = (html) => String(html).replace(/<\/?(b|div)( [^>]*)?>/gi, "").split(/<br\s*\/?>/i);

class DataTable {
  constructor() {
    this.columns = [];
    this.rows = [];
    this.properties = new Map();
  }

  addColumn(column, label) {
    const given = typeof column === "string" ? { type: column, label } : column;
    return this.columns.push({ ...given, label: given.label ?? given.id ?? "" }) - 1;
  }

  addRow(row) {
    return this.rows.push(row) - 1;
  }

  addRows(rows) {
    rows.forEach((row) => this.addRow(row));
    return this.rows.length - 1;
  }

  setProperty(row, column, name, value) {
    const key = `${row},${column}`;
    this.properties.set(key, { ...this.properties.get(key), [name]: value });
  }

  // Each column of numbers is a series. The column to its right holds its tooltips.
  series() {
    return this.columns.map((column, index) => ({ column, index })).filter(({ column, index }) => index && !column.role)
      .map(({ column, index }) => {
        const hasTips = this.columns[index + 1]?.role === "tooltip";
        return { index, label: column.label, data: this.rows.map((row) => numberOf(row[index])),
          tips: this.rows.map((row) => (hasTips ? row[index + 1] : null)) };
      });
  }

  names() {
    return this.rows.map((row) => textOf(row[0]));
  }
}

function arrayToDataTable([head, ...rows]) {
  const table = new DataTable();
  head.forEach((label, index) => {
    const given = typeof label === "object" && label !== null ? label : { label: String(label) };
    table.addColumn({ type: index ? "number" : "string", ...given });
  });
  table.addRows(rows);
  return table;
}

class Drawing {
  constructor(container) {
    Object.assign(this, { container, listeners: {}, selection: [] });
  }

  clearChart() {
    this.chart?.destroy();
    this.container.textContent = "";
  }

  tell(event) {
    (this.listeners[event] || []).forEach((action) => action());
  }

  getSelection() {
    return this.selection;
  }

  // The tab marks rows that its tables point at. Chart.js marks what lies under the mouse.
  setSelection() {}

  colour(index) {
    const given = this.options.colors?.length ? this.options.colors : COLOURS;
    return given[index % given.length];
  }

  draw(table, options) {
    this.clearChart();
    Object.assign(this, { table, options: options || {} });
    // Outside of the page's flow, because a canvas with a fixed width would keep its column wide.
    this.container.style.cssText = `position:relative;width:100%;height:${Number(this.options.height) || 300}px`;
    const box = this.container.appendChild(document.createElement("div"));
    box.style.cssText = "position:absolute;inset:0";
    const canvas = box.appendChild(document.createElement("canvas"));
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", this.options.title || "chart");
    const { type, data, options: own = {}, plugins } = this.config();
    const titled = (axis) => ({ display: Boolean(axis?.title), text: axis?.title, color: INK });
    const { x = {}, y = {}, ...otherScales } = own.scales || {};
    const scales = type === "doughnut" ? {} : {
      x: { ...x, title: titled(this.options.hAxis) }, y: { ...y, title: titled(this.options.vAxis) }, ...otherScales };
    const legend = { display: this.options.legend !== "none", position: type === "doughnut" ? "right" : "bottom" };
    this.chart = new Chart(canvas, { type, data, plugins, options: {
      animation: false, maintainAspectRatio: false, onClick: (_, found) => this.select(found), ...own, scales,
      plugins: {
        legend, title: { display: Boolean(this.options.title), text: this.options.title, color: INK, align: "start" },
        tooltip: { callbacks: { label: (item) => this.tip(item) } }, ...own.plugins,
      } } });
    this.tell("ready");
  }

  tip({ dataset, dataIndex, formattedValue, label }) {
    const own = dataset.tips?.[dataIndex];
    return own ? linesOf(own) : `${dataset.label ?? label}: ${formattedValue}`;
  }

  select([found]) {
    if (!found) return;
    this.selection = [{ row: found.index, column: this.chart.data.datasets[found.datasetIndex].index }];
    this.tell("select");
  }

  datasets(more = () => ({})) {
    return this.table.series().map((one, index) => (
      { ...one, backgroundColor: this.colour(index), borderColor: this.colour(index), ...more(index) }));
  }
}

class ColumnChart extends Drawing {
  config() {
    const data = { labels: this.table.names(), datasets: this.datasets(() => ({ maxBarThickness: 90 })) };
    return { type: "bar", data, options: { scales: { x: { stacked: true }, y: { stacked: true } } } };
  }
}

class ComboChart extends Drawing {
  config() {
    const isLine = (index) => this.options.series?.[index]?.type === "line";
    const datasets = this.datasets((index) => (isLine(index) ? { type: "line", yAxisID: "y2" } : {}));
    const second = datasets.some((_, index) => isLine(index)) ? { y2: { position: "right", beginAtZero: true } } : {};
    return { type: "bar", data: { labels: this.table.names(), datasets }, options: { scales: second } };
  }
}

// The memory curve: drag to zoom, right click to reset the zoom.
class LineChart extends Drawing {
  config() {
    const xs = this.table.rows.map((row) => numberOf(row[0]));
    const datasets = this.datasets(() => ({ pointRadius: 0, borderWidth: 1.8 }));
    datasets.forEach((one) => { one.data = one.data.map((y, row) => ({ x: xs[row], y })); });
    this.zoomByDragging(xs);
    return { type: "line", data: { datasets }, options: {
      parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: { type: "linear", min: xs[0], max: xs[xs.length - 1] }, y: { beginAtZero: true } } } };
  }

  zoomByDragging(xs) {
    const canvas = this.container.querySelector("canvas");
    let start = null;
    const show = (min, max) => {
      Object.assign(this.chart.options.scales.x, { min, max });
      this.chart.update("none");
      canvas.parentNode.append(document.createComment("zoomed")); // the tab watches the page for changes
    };
    canvas.addEventListener("mousedown", (event) => { start = event.button ? null : event.offsetX; });
    canvas.addEventListener("mouseup", (event) => {
      if (start !== null && Math.abs(event.offsetX - start) > 4) {
        show(...[start, event.offsetX].sort((a, b) => a - b).map((pixel) => this.timeAt(pixel)));
      }
      start = null;
    });
    canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      show(xs[0], xs[xs.length - 1]);
    });
  }

  timeAt(pixel) {
    const { min, max } = this.chart.scales.x;
    return Math.min(Math.max(this.chart.scales.x.getValueForPixel(pixel), min), max);
  }

  getChartLayoutInterface() {
    const { left, right, top, bottom } = this.chart.chartArea;
    return { getHAxisValue: (pixel) => this.timeAt(pixel),
      getChartAreaBoundingBox: () => ({ left, top, width: right - left, height: bottom - top }) };
  }
}

class PieChart extends Drawing {
  config() {
    const tooltip = this.table.columns.findIndex((column) => column.role === "tooltip");
    const data = this.table.rows.map((row) => Math.max(numberOf(row[1]), 0));
    const tips = this.table.rows.map((row) => (tooltip > 0 ? row[tooltip] : null));
    const backgroundColor = data.map((_, row) => this.colour(row));
    const cutout = `${100 * (Number(this.options.pieHole) || 0)}%`;
    return { type: "doughnut", data: { labels: this.table.names(), datasets: [{ data, tips, backgroundColor }] },
      options: { cutout } };
  }

  tip(item) {
    const whole = item.dataset.data.reduce((sum, value) => sum + value, 0) || 1;
    return item.dataset.tips[item.dataIndex] ? super.tip(item)
      : `${item.formattedValue} (${((100 * item.raw) / whole).toFixed(1)} %)`;
  }
}

// Bars over time, one row per level. A bar shows its name if it is wide enough.
class Timeline extends Drawing {
  config() {
    const rows = this.table.rows.map((row) => row.map(valueOf));
    const from = Math.min(...rows.map((row) => row[3]));
    const hash = (name) => [...String(name)].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 9973, 7);
    const data = rows.map(([level, name, , start, end]) => ({ y: String(level), x: [start - from, end - from], name }));
    const tips = rows.map(([, name, tip]) => tip || name);
    const backgroundColor = rows.map(([, name]) => COLOURS[hash(name) % COLOURS.length]);
    const names = { id: "names", afterDatasetsDraw: (chart) => chart.getDatasetMeta(0).data.forEach((bar, row) => {
      if (bar.width < 40) return;
      chart.ctx.fillStyle = "#fff";
      chart.ctx.fillText(String(data[row].name).slice(0, bar.width / 7), bar.base + 4, bar.y + 4);
    }) };
    this.options.legend = "none";
    const labels = [...new Set(data.map((bar) => bar.y))];
    return { type: "bar", data: { labels, datasets: [{ data, tips, backgroundColor, grouped: false, borderWidth: 0.5, borderColor: "#fff" }] },
      plugins: [names], options: { indexAxis: "y", scales: { x: { ticks: { callback: (ms) => `${ms} ms` } }, y: { ticks: { display: false } } } } };
  }
}

// A click on a column's head sorts the table.
class Table extends Drawing {
  draw(table, options) {
    this.clearChart();
    Object.assign(this, { table, options: options || {} });
    this.sorted = { column: this.options.sortColumn ?? -1, ascending: this.options.sortAscending !== false };
    this.container.style.cssText = "overflow:auto;max-height:40rem;font:12px sans-serif";
    this.fill();
    this.tell("ready");
  }

  fill() {
    const rows = this.table.rows.map((_, index) => index);
    const key = (row) => valueOf(this.table.rows[row][this.sorted.column]);
    const sign = this.sorted.ascending ? 1 : -1;
    if (this.sorted.column >= 0) rows.sort((a, b) => sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0));
    const table = document.createElement("table");
    table.style.cssText = "border-collapse:collapse;width:100%";
    const shown = this.table.columns.map((column, index) => ({ column, index })).filter(({ column }) => !column.role);
    const head = table.insertRow();
    shown.forEach(({ column, index }) => {
      const cell = head.appendChild(document.createElement("th"));
      cell.textContent = column.label;
      cell.style.cssText = "text-align:left;padding:4px 8px;cursor:pointer";
      cell.addEventListener("click", () => {
        this.sorted = { column: index, ascending: this.sorted.column === index && !this.sorted.ascending };
        this.fill();
      });
    });
    rows.forEach((row) => {
      const line = table.insertRow();
      shown.forEach(({ column, index }) => {
        const facts = this.table.properties.get(`${row},${index}`) || {};
        const cell = line.insertCell();
        cell.style.cssText = `padding:4px 8px;text-align:${column.type === "number" ? "right" : "left"};${facts.style || ""}`;
        cell.className = facts.className || "";
        cell.innerText = linesOf(textOf(this.table.rows[row][index])).join("\n");
      });
    });
    this.container.replaceChildren(table);
  }
}

window.google = { charts: { load: () => Promise.resolve(), setOnLoadCallback: (action) => action() }, visualization: {
  DataTable, arrayToDataTable, ColumnChart, SteppedAreaChart: ColumnChart, ComboChart, LineChart, PieChart, Table, Timeline,
  events: { addListener: (chart, event, action) => (chart.listeners[event] ||= []).push(action) },
} };

// The column beside the tab's menu grows with its widest table, beyond a 1280-pixel screen.
const style = document.head.appendChild(document.createElement("style"));
style.textContent = "#app main{min-width:0} #app .ant-table-wrapper{overflow-x:auto}" +
  "#app .MuiGrid-direction-xs-column{flex-wrap:nowrap} #app .MuiGrid-direction-xs-column>*{max-width:100%}";
})();
