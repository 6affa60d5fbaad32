// Under the names that the profiler tab calls.

window.google = window.google || {};
window.google.charts = {
  load: () => Promise.resolve(),
  setOnLoadCallback: (action) => action(),
};
window.google.visualization = {
  DataTable, arrayToDataTable, ColumnChart, SteppedAreaChart, ComboChart, LineChart, PieChart, Table, Timeline,
  events: { addListener: (chart, event, action) => chart.listen(event, action) },
};

// The tab's column beside its menu grows with its widest table, out of a 1280-pixel screen.
const style = document.createElement("style");
style.textContent = "#app main{min-width:0} #app .ant-table-wrapper{overflow-x:auto}" +
  "#app .MuiGrid-direction-xs-column{flex-wrap:nowrap} #app .MuiGrid-direction-xs-column>*{max-width:100%}";
document.head.appendChild(style);
