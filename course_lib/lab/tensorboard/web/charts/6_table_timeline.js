// A table with pages that sorts by a click on its head; and bars in time, one line a level.

class Table extends Chart {
  draw(table, options) {
    this.open(table, options);
    this.svg.remove();
    this.container.style.height = "100%";
    this.page = 0;
    this.sorted = { column: this.options.sortColumn, ascending: this.options.sortAscending !== false };
    this.box = document.createElement("div");
    this.box.style.cssText = "overflow:auto;max-height:100%;font:12px sans-serif";
    this.container.appendChild(this.box);
    this.fill();
    this.tell("ready", {});
  }

  order() {
    const rows = this.table.rows.map((_, index) => index);
    const { column, ascending } = this.sorted;
    if (!Number.isInteger(column) || column < 0) return rows;
    const key = (index) => valueOf(this.table.rows[index][column]);
    const sign = ascending ? 1 : -1;
    return rows.sort((a, b) => sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0));
  }

  fill() {
    const size = this.options.page === "enable" ? Number(this.options.pageSize) || 10 : Infinity;
    const rows = this.order();
    const shown = rows.slice(this.page * size, (this.page + 1) * size);
    const table = document.createElement("table");
    table.style.cssText = "border-collapse:collapse;width:100%";
    const head = table.insertRow();
    this.table.columns.forEach((column, index) => {
      if (column.role) return;
      const cell = document.createElement("th");
      cell.textContent = column.label;
      cell.style.cssText = "text-align:left;border-bottom:2px solid #8a8d91;padding:4px 8px;cursor:pointer";
      cell.addEventListener("click", () => {
        this.sorted = { column: index, ascending: this.sorted.column === index && !this.sorted.ascending };
        this.fill();
      });
      head.appendChild(cell);
    });
    shown.forEach((row) => this.row(table.insertRow(), row));
    this.box.textContent = "";
    this.box.appendChild(table);
    if (rows.length > size) this.pager(Math.ceil(rows.length / size));
  }

  row(line, row) {
    this.table.columns.forEach((column, index) => {
      if (column.role) return;
      const cell = line.insertCell();
      cell.style.cssText = `padding:4px 8px;border-bottom:1px solid ${FAINT};` +
        (column.type === "number" ? "text-align:right" : "");
      const facts = this.table.properties.get(`${row},${index}`) || {};
      if (facts.style) cell.style.cssText += `;${facts.style}`;
      if (facts.className) cell.className = facts.className;
      const text = textOf(this.table.rows[row][index]);
      if (this.options.allowHtml) richText(text, cell);
      else cell.textContent = text;
    });
  }

  pager(pages) {
    const bar = document.createElement("div");
    [["‹", -1], ["›", 1]].forEach(([sign, step]) => {
      const button = document.createElement("button");
      button.textContent = sign;
      button.disabled = this.page + step < 0 || this.page + step >= pages;
      button.addEventListener("click", () => { this.page += step; this.fill(); });
      bar.appendChild(button);
    });
    bar.append(` page ${this.page + 1} of ${pages}`);
    this.box.appendChild(bar);
  }
}

class Timeline extends Chart {
  draw(table, options) {
    this.open(table, options);
    const rows = table.rows.map((row) => row.map(valueOf));
    const levels = [...new Set(rows.map((row) => row[0]))];
    const from = rows.reduce((least, row) => Math.min(least, row[3]), Infinity);
    const to = rows.reduce((most, row) => Math.max(most, row[4]), -Infinity);
    const step = (this.height - 30) / Math.max(levels.length, 1);
    const x = (value) => 8 + ((value - from) / (to - from || 1)) * (this.width - 16);
    const lastPixel = new Map();
    [...rows].sort((a, b) => a[3] - b[3]).forEach(([level, name, tip, start, end]) => {
      const left = x(start);
      const right = Math.max(x(end), left + 0.5);
      if (right < (lastPixel.get(level) ?? -1) + 0.5) return; // hidden under its neighbour
      lastPixel.set(level, right);
      this.block({ x: left, y: levels.indexOf(level) * step + 2, width: right - left, height: step - 4 }, name, tip);
    });
    niceTicks(0, to - from, 8).forEach((tick, index) => element("text", {
      x: x(from + tick), y: this.height - 8, "text-anchor": index ? "middle" : "start", fill: QUIET }, this.svg, `${written(tick)} ms`));
    this.tell("ready", {});
  }

  block(box, name, tip) {
    const hash = [...String(name)].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 9973, 7);
    const fill = COLOURS[hash % (COLOURS.length - 1)];
    const shape = element("rect", { ...box, fill, stroke: "#fff", "stroke-width": box.width > 3 ? 0.7 : 0 }, this.svg);
    this.hover(shape, tip || name);
    if (box.width > 40) {
      element("text", { x: box.x + 4, y: box.y + box.height / 2 + 4, fill: "#fff", "pointer-events": "none", stroke: INK, "stroke-width": 2.5, "paint-order": "stroke" },
        this.svg, shortened(String(name), box.width - 8));
    }
  }
}
