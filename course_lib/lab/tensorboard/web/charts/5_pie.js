// Rings of shares, with a legend beside them.

class PieChart extends Chart {
  draw(table, options) {
    this.open(table, options);
    const values = table.rows.map((row) => Math.max(Number(valueOf(row[1])) || 0, 0));
    const names = table.names();
    this.whole = values.reduce((sum, value) => sum + value, 0);
    const legend = this.options.legend !== "none";
    const top = this.options.title ? 28 : 8;
    this.radius = Math.max(Math.min((this.height - top - 10) / 2, this.width * (legend ? 0.24 : 0.45)), 20);
    this.centre = [legend ? this.radius + 12 : this.width / 2, top + (this.height - top) / 2];
    this.slices = [];
    let turn = 0;
    values.forEach((value, row) => {
      const share = this.whole ? value / this.whole : 0;
      this.slice(turn, turn + share, row, this.words(names[row], value, share, row));
      turn += share;
    });
    if (!this.whole) element("text", { x: this.centre[0], y: this.centre[1], "text-anchor": "middle", fill: QUIET }, this.svg, "no time");
    if (legend) this.legendBeside(names, values);
    this.tell("ready", {});
  }

  words(name, value, share, row) {
    const tooltip = this.table.columns.findIndex((column) => column.role === "tooltip");
    if (tooltip > 0 && this.table.rows[row][tooltip]) return this.table.rows[row][tooltip];
    const percent = `${(100 * share).toFixed(1)} %`;
    const text = (this.options.tooltip || {}).text === "percentage" ? percent : `${written(value)} (${percent})`;
    return `${name}<br><b>${text}</b>`;
  }

  slice(from, to, row, html) {
    const hole = this.radius * (Number(this.options.pieHole) || 0);
    const point = (turn, radius) => {
      const angle = 2 * Math.PI * turn - Math.PI / 2;
      return `${this.centre[0] + radius * Math.cos(angle)} ${this.centre[1] + radius * Math.sin(angle)}`;
    };
    const end = Math.min(to, from + 0.99999); // an arc that ends where it began is none
    const large = end - from > 0.5 ? 1 : 0;
    const d = `M${point(from, this.radius)} A${this.radius} ${this.radius} 0 ${large} 1 ${point(end, this.radius)} ` +
      `L${point(end, hole)} A${hole} ${hole} 0 ${large} 0 ${point(from, hole)} Z`;
    const shape = element("path", { d, fill: colourOf(this.options, row), stroke: "#fff" }, this.svg);
    this.slices[row] = { shape, html, middle: (from + end) / 2 };
    shape.addEventListener("mouseenter", () => this.tell("onmouseover", { row }));
    shape.addEventListener("mouseleave", () => this.tell("onmouseout", { row }));
    if (end - from > 0.06) {
      const [x, y] = point((from + end) / 2, (this.radius + hole) / 2).split(" ");
      element("text", { x, y: Number(y) + 4, "text-anchor": "middle", fill: "#fff", "pointer-events": "none", stroke: INK, "stroke-width": 2.5, "paint-order": "stroke" },
        this.svg, `${(100 * (to - from)).toFixed(1)} %`);
    }
  }

  legendBeside(names, values) {
    const x = this.centre[0] + this.radius + 24;
    const room = Math.max(Math.floor((this.height - 30) / LEGEND_PX), 1);
    names.slice(0, room).forEach((name, row) => {
      const y = (this.options.title ? 40 : 20) + row * LEGEND_PX;
      element("rect", { x, y: y - 10, width: 11, height: 11, fill: colourOf(this.options, row) }, this.svg);
      const text = element("text", { x: x + 16, y, fill: INK }, this.svg, shortened(name, this.width - x - 20));
      element("title", {}, text, `${name}: ${written(values[row])}`);
    });
    if (names.length > room) {
      element("text", { x: x + 16, y: this.height - 6, fill: QUIET }, this.svg, `and ${names.length - room} more`);
    }
  }

  drawSelection() {
    this.hideTip();
    this.slices.forEach((one) => one.shape.setAttribute("opacity", this.selection.length ? 0.55 : 1));
    this.selection.forEach(({ row }) => {
      const one = this.slices[row];
      if (!one) return;
      one.shape.setAttribute("opacity", 1);
      const angle = 2 * Math.PI * one.middle - Math.PI / 2;
      this.showTip(this.centre[0] + this.radius * 0.8 * Math.cos(angle), this.centre[1] + this.radius * 0.8 * Math.sin(angle), one.html);
    });
  }
}
