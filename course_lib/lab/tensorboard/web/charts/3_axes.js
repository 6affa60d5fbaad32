// Charts with two axes: stacked columns, columns with lines, stepped areas, lines.

class AxisChart extends Chart {
  frame(labels, low, high, secondHigh) {
    const { hAxis = {}, vAxis = {} } = this.options;
    const legend = this.options.legend === "none" ? 0 : this.legendBelow(labels);
    const area = { left: 84, top: this.options.title ? 34 : 14 };
    area.right = this.width - (secondHigh === undefined ? 18 : 74);
    area.bottom = this.height - legend - (hAxis.title ? 42 : 26);
    this.area = area;
    const top = niceTicks(low, high).slice(-1)[0] >= high ? high : high * 1.02;
    this.y = (value) => area.bottom - ((value - low) / (top - low || 1)) * (area.bottom - area.top);
    niceTicks(low, top).forEach((tick) => this.gridLine(tick));
    if (secondHigh !== undefined) {
      this.y2 = (value) => area.bottom - (value / (secondHigh || 1)) * (area.bottom - area.top);
      niceTicks(0, secondHigh).forEach((tick) => element("text", {
        x: area.right + 6, y: this.y2(tick) + 4, fill: QUIET }, this.svg, written(tick)));
    }
    if (vAxis.title) {
      const middle = (area.top + area.bottom) / 2;
      element("text", { x: 14, y: middle, transform: `rotate(-90 14 ${middle})`, "text-anchor": "middle", fill: INK },
        this.svg, vAxis.title);
    }
    if (hAxis.title) {
      element("text", { x: (area.left + area.right) / 2, y: area.bottom + 36, "text-anchor": "middle", fill: INK },
        this.svg, hAxis.title);
    }
  }

  gridLine(tick) {
    const y = this.y(tick);
    element("line", { x1: this.area.left, x2: this.area.right, y1: y, y2: y, stroke: FAINT }, this.svg);
    element("text", { x: this.area.left - 6, y: y + 4, "text-anchor": "end", fill: QUIET }, this.svg, written(tick));
  }

  // Names under the groups, as many as there is room for.
  nameGroups(names) {
    const step = (this.area.right - this.area.left) / Math.max(names.length, 1);
    const every = Math.max(1, Math.ceil(36 / step));
    names.forEach((name, index) => {
      if (index % every) return;
      const attributes = { x: this.area.left + (index + 0.5) * step, y: this.area.bottom + 16, "text-anchor": "middle", fill: INK };
      element("text", attributes, this.svg, shortened(name, step * every - 4));
    });
    return step;
  }

  tipFor(series, row, name) {
    const tip = series.tips && series.tips[row];
    return tip || `${name}<br><b>${series.label}: ${written(series.values[row])}</b>`;
  }

  bar(box, fill, html, select) {
    const shape = element("rect", { ...box, fill, stroke: "#fff", "stroke-width": 0.5 }, this.svg);
    this.hover(shape, html);
    if (select) {
      shape.style.cursor = "pointer";
      shape.addEventListener("click", () => {
        this.selection = [select];
        this.tell("select", {});
      });
    }
  }
}

class ColumnChart extends AxisChart {
  draw(table, options) {
    this.open(table, options);
    const series = table.series();
    const names = table.names();
    const totals = names.map((_, row) => series.reduce((sum, one) => sum + one.values[row], 0));
    this.frame(series.map((one) => one.label), 0, Math.max(...totals, 0) || 1);
    const step = this.nameGroups(names);
    const gap = this.gapFor(step);
    names.forEach((name, row) => {
      let below = 0;
      series.forEach((one, index) => {
        const top = this.y(below + one.values[row]);
        const box = { x: this.area.left + row * step + gap / 2, y: top, width: step - gap, height: Math.max(this.y(below) - top, 0) };
        this.bar(box, colourOf(this.options, index), this.tipFor(one, row, name));
        below += one.values[row];
      });
    });
    this.tell("ready", {});
  }

  gapFor(step) {
    return Math.max(step * 0.35, step - 90);
  }
}

class SteppedAreaChart extends ColumnChart {
  gapFor() {
    return 0;
  }
}

class ComboChart extends AxisChart {
  draw(table, options) {
    this.open(table, options);
    const series = table.series();
    const kinds = series.map((_, index) => (this.options.series || {})[index] || { type: "bars" });
    const bars = series.filter((_, index) => kinds[index].type !== "line");
    const lines = series.filter((_, index) => kinds[index].type === "line");
    const most = (group) => Math.max(...group.flatMap((one) => one.values), 0) || 1;
    const names = table.names();
    this.frame(series.map((one) => one.label), 0, most(bars), lines.length ? most(lines) : undefined);
    const step = this.nameGroups(names);
    const width = Math.min((step * 0.7) / Math.max(bars.length, 1), 60);
    names.forEach((name, row) => bars.forEach((one, index) => {
      const x = this.area.left + (row + 0.5) * step + (index - bars.length / 2) * width;
      const y = this.y(one.values[row]);
      const box = { x, y, width, height: Math.max(this.area.bottom - y, 0) };
      this.bar(box, colourOf(this.options, series.indexOf(one)), this.tipFor(one, row, name), { row, column: one.index });
    }));
    lines.forEach((one) => this.drawLine(one, step, colourOf(this.options, series.indexOf(one)), names));
    this.tell("ready", {});
  }

  drawLine(one, step, stroke, names) {
    const points = one.values.map((value, row) => [this.area.left + (row + 0.5) * step, this.y2(value)]);
    element("polyline", { points: points.join(" "), fill: "none", stroke, "stroke-width": 2 }, this.svg);
    points.forEach(([cx, cy], row) => {
      const dot = element("circle", { cx, cy, r: 4, fill: stroke }, this.svg);
      this.hover(dot, this.tipFor(one, row, names[row]));
    });
  }
}
