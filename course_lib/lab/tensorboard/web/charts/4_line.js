// The memory curve: lines over time; drag to zoom, right click to see all again.

class LineChart extends AxisChart {
  draw(table, options) {
    this.full = null;
    this.given = [table, options];
    const x = table.rows.map((row) => Number(valueOf(row[0])));
    this.xs = x;
    this.show(x.length ? x[0] : 0, x.length ? x[x.length - 1] : 1);
    this.tell("ready", {});
  }

  show(from, to) {
    this.full = this.full || [from, to];
    this.range = [from, to > from ? to : from + 1e-9];
    this.open(...this.given);
    const series = this.table.series();
    const visible = series.map((one) => one.values.filter((_, row) => this.xs[row] >= from && this.xs[row] <= to));
    const high = visible.flat().reduce((most, value) => Math.max(most, value), 0) || 1;
    this.frame(series.map((one) => one.label), 0, high);
    this.x = (value) => this.area.left + ((value - from) / (this.range[1] - from)) * (this.area.right - this.area.left);
    niceTicks(from, this.range[1], 8).forEach((tick) => element("text", {
      x: this.x(tick), y: this.area.bottom + 16, "text-anchor": "middle", fill: QUIET }, this.svg, written(tick)));
    this.curves(series);
    this.marks = element("g", {}, this.svg);
    this.follow(series);
    this.drawSelection();
  }

  // The tracer gives two points for every step: the level before, and after.
  curves(series) {
    const clip = `clip-${Math.random().toString(36).slice(2)}`;
    const { left, right, top, bottom } = this.area;
    const path = element("clipPath", { id: clip }, this.svg);
    element("rect", { x: left, y: top - 2, width: right - left, height: bottom - top + 4 }, path);
    series.forEach((one, index) => {
      const points = one.values.map((value, row) => `${this.x(this.xs[row]).toFixed(1)},${this.y(value).toFixed(1)}`);
      element("polyline", {
        points: points.join(" "), fill: "none", stroke: colourOf(this.options, index), "stroke-width": 1.8,
        "clip-path": `url(#${clip})`,
      }, this.svg);
    });
  }

  follow(series) {
    const { left, right, top, bottom } = this.area;
    const glass = element("rect", { x: left, y: top, width: right - left, height: bottom - top, fill: "transparent" }, this.svg);
    let start = null;
    let band = null;
    const at = (event) => Math.min(Math.max(event.clientX - this.svg.getBoundingClientRect().left, left), right);
    const back = (pixel) => this.getHAxis(pixel);
    glass.addEventListener("mousedown", (event) => {
      if (event.button !== 0) return;
      start = at(event);
      band = element("rect", { x: start, y: top, width: 0, height: bottom - top, fill: COLOURS[0], opacity: 0.18, "pointer-events": "none" }, this.svg);
    });
    glass.addEventListener("mousemove", (event) => {
      const pixel = at(event);
      if (start !== null) {
        band.setAttribute("x", Math.min(start, pixel));
        band.setAttribute("width", Math.abs(pixel - start));
        return;
      }
      const row = this.nearest(back(pixel));
      if (row < 0) return;
      const lines = series.map((one) => `<b>${one.label}: ${written(one.values[row])}</b>`);
      this.showTip(pixel, this.y(series[0].values[row]), [written(this.xs[row]), ...lines].join("<br>"));
    });
    const release = (event) => {
      if (start === null) return;
      const [from, to] = [start, at(event)].sort((a, b) => a - b).map(back);
      const wide = Math.abs(at(event) - start) > 4;
      start = null;
      if (wide) this.show(from, to);
      else if (band) band.remove();
    };
    glass.addEventListener("mouseup", release);
    glass.addEventListener("mouseleave", (event) => { this.hideTip(); release(event); });
    glass.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.show(...this.full);
    });
  }

  nearest(value) {
    let low = 0;
    let high = this.xs.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.xs[middle] < value) low = middle + 1;
      else high = middle;
    }
    return high;
  }

  drawSelection() {
    if (!this.marks) return;
    this.marks.textContent = "";
    const series = this.table.series();
    this.selection.filter((one) => one && one.row >= 0 && one.row < this.xs.length).forEach((one) => {
      const values = (series.find((each) => each.index === one.column) || series[0]).values;
      const place = { cx: this.x(this.xs[one.row]), cy: this.y(values[one.row]), r: 6 };
      element("circle", { ...place, fill: "none", stroke: INK, "stroke-width": 2.5, "pointer-events": "none" }, this.marks);
    });
  }

  getHAxis(pixel) {
    const { left, right } = this.area;
    return this.range[0] + ((pixel - left) / (right - left)) * (this.range[1] - this.range[0]);
  }

  getChartLayoutInterface() {
    const { left, right, top, bottom } = this.area;
    return {
      getChartAreaBoundingBox: () => ({ left, top, width: right - left, height: bottom - top }),
      getHAxisValue: (pixel) => this.getHAxis(pixel),
    };
  }
}
