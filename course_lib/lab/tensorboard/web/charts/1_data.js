// The table that the profiler tab fills, cell by cell or from rows.
// A cell is a value, or {v: value, f: text to show}.

function valueOf(cell) {
  return cell !== null && typeof cell === "object" && "v" in cell ? cell.v : cell;
}

function textOf(cell) {
  if (cell !== null && typeof cell === "object" && "f" in cell) return String(cell.f);
  const value = valueOf(cell);
  if (value === null || value === undefined) return "";
  return typeof value === "number" ? written(value) : String(value);
}

function written(number) {
  if (!Number.isFinite(number)) return "";
  const digits = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 1 ? 2 : 4;
  return number.toLocaleString("en-GB", { maximumFractionDigits: digits });
}

class DataTable {
  constructor() {
    this.columns = [];
    this.rows = [];
    this.properties = new Map();
  }

  addColumn(column, label) {
    const given = typeof column === "string" ? { type: column, label } : column;
    this.columns.push({ ...given, label: given.label ?? given.id ?? "" });
    return this.columns.length - 1;
  }

  addRow(row) {
    this.rows.push(row);
    return this.rows.length - 1;
  }

  addRows(rows) {
    rows.forEach((row) => this.addRow(row));
    return this.rows.length - 1;
  }

  setProperty(row, column, name, value) {
    const key = `${row},${column}`;
    this.properties.set(key, { ...this.properties.get(key), [name]: value });
  }

  // One series a column of numbers; its tooltip stands in the column to its right.
  series() {
    const found = [];
    this.columns.forEach((column, index) => {
      if (index === 0 || column.role) return;
      const next = this.columns[index + 1];
      const tooltip = next && next.role === "tooltip" ? index + 1 : null;
      found.push({
        index,
        label: column.label,
        values: this.rows.map((row) => Number(valueOf(row[index]) ?? 0)),
        tips: this.rows.map((row) => (tooltip === null ? null : row[tooltip])),
      });
    });
    return found;
  }

  names() {
    return this.rows.map((row) => textOf(row[0]));
  }
}

function arrayToDataTable(rows) {
  const table = new DataTable();
  const [head, ...rest] = rows;
  head.forEach((label, index) => {
    const given = typeof label === "object" && label !== null ? label : { label: String(label) };
    table.addColumn({ type: index ? "number" : "string", ...given });
  });
  table.addRows(rest);
  return table;
}
