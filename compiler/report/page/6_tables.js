// Sortable, filterable tables of nodes and casts. Rows are made as one scrolls.
const rowsPerPage = 150;
const tables = {
  nodes: {
    title: "Nodes", rows: report.nodes, drawn: drawnOfDecision,
    kinds: {low: "Low precision", fp32: "FP32", other: "No floating point"},
    kind: (node) => kindOfType(node.dtype),
    rule: (node) => node.rule,
    text: (node) => `${node.scope}${node.name} ${node.op} ${node.domain} ${shortType(node.dtype)} ${node.rule} ${node.cause}`,
    columns: [
      {title: "Node", key: (node) => node.scope + node.name, name: true},
      {title: "Op", key: (node) => node.op},
      {title: "Runs in", key: (node) => shortType(node.dtype), cell: (node) => typeTag(node.dtype)},
      {title: "Rule", key: (node) => node.rule},
      {title: "Cause", key: (node) => node.cause},
      {title: "FLOPs", key: (node) => node.flops, cell: (node) => (node.flops > 0 ? formatFlops(node.flops) : "\u2013"), number: true},
      {title: "Bytes", key: (node) => node.bytes, cell: (node) => formatBytes(node.bytes), number: true},
    ],
  },
  casts: {
    title: "Casts", rows: report.casts, drawn: drawnOfCast,
    kinds: {"run time": "At run time", "stored low": "Stored low", removed: "Removed"},
    kind: placeOf,
    rule: () => "",
    text: (cast) => `${cast.scope}${cast.value} ${cast.producer} ${cast.consumers.join(" ")} ${castTypes(cast)} ${placeOf(cast)} ${cast.cause}`,
    columns: [
      {title: "Tensor", key: (cast) => cast.scope + cast.value, name: true},
      {title: "Made by", key: (cast) => cast.producer},
      {title: "Types", key: castTypes, cell: (cast) => tag("cast", castTypes(cast))},
      {title: "Where", key: placeOf},
      {title: "Readers", key: (cast) => cast.consumers.length, number: true, cell: (cast) => element("span", {title: cast.consumers.slice(0, 40).join("\n")}, String(cast.consumers.length))},
      {title: "Bytes", key: (cast) => cast.bytes, cell: (cast) => (cast.ahead_of_time || cast.removed ? "\u2013" : formatBytes(cast.bytes)), number: true},
      {title: "Cause", key: (cast) => cast.cause},
    ],
  },
};
const tableState = {shown: "nodes", column: -1, descending: false, selected: -1};
const compareText = new Intl.Collator("en", {numeric: true}).compare;

function visibleRows() {
  const table = tables[tableState.shown];
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = byId("filter-kind").value, rule = byId("filter-rule").value;
  const rows = table.rows.map((row, index) => ({row, index})).filter(({row}) => {
    if (kind && table.kind(row) !== kind) return false;
    if (rule && table.rule(row) !== rule) return false;
    const text = words.length > 0 ? table.text(row).toLowerCase() : "";
    return words.every((word) => text.includes(word));
  });
  if (tableState.column >= 0) {
    const {key, number} = table.columns[tableState.column];
    const order = tableState.descending ? -1 : 1;
    rows.sort((a, b) => order * (number ? key(a.row) - key(b.row) : compareText(key(a.row), key(b.row))));
  }
  return rows;
}

function makeRow(table, {row, index}, choose) {
  const cells = table.columns.map((column) => {
    const content = column.cell ? column.cell(row) : column.key(row);
    if (column.name) {
      return element("td", {class: "mono"}, element("button", {class: "link", type: "button", click: () => choose(tableState.shown, index)}, content));
    }
    return element("td", {class: column.number ? "num" : ""}, content);
  });
  return element("tr", {class: index === tableState.selected ? "selected" : ""}, cells);
}

function sortBy(column, choose) {
  const {number} = tables[tableState.shown].columns[column];
  if (tableState.column !== column) Object.assign(tableState, {column, descending: Boolean(number)});
  else if (tableState.descending === Boolean(number)) tableState.descending = !tableState.descending;
  else tableState.column = -1;  // third time: back to the order of the graph
  showTable(choose);
  byId("table").querySelectorAll("thead button")[column].focus();
}

function makeHead(table, choose) {
  return element("thead", {}, element("tr", {}, table.columns.map(({title, number}, i) => {
    const sorted = tableState.column === i;
    const mark = sorted ? (tableState.descending ? " \u2193" : " \u2191") : "";
    return element("th", {scope: "col", class: number ? "num" : "", "aria-sort": sorted ? (tableState.descending ? "descending" : "ascending") : "none"},
      element("button", {type: "button", title: "Sort", click: () => sortBy(i, choose)}, title + mark));
  })));
}

function showTable(choose) {
  const table = tables[tableState.shown];
  const rows = visibleRows(), area = byId("table");
  const noun = tableState.shown;
  byId("row-count").textContent = rows.length === table.rows.length ? `${formatCount(rows.length)} ${noun}` : `${formatCount(rows.length)} of ${formatCount(table.rows.length)} ${noun}`;
  if (rows.length === 0) {
    area.replaceChildren(element("p", {class: "soft"}, table.rows.length === 0 ? `No ${noun}.` : `No ${noun} fit the filters.`));
    return;
  }
  const body = element("tbody");
  let made = 0;
  const more = () => {
    const end = Math.min(made + rowsPerPage, rows.length);
    for (; made < end; ++made) body.append(makeRow(table, rows[made], choose));
  };
  more();
  area.replaceChildren(element("table", {}, makeHead(table, choose), body));
  area.scrollTop = 0;
  area.onscroll = () => {
    if (made < rows.length && area.scrollTop + area.clientHeight > area.scrollHeight - 600) more();
  };
}

function options(select, all, entries) {
  select.replaceChildren(element("option", {value: ""}, all), ...entries.map(([value, text]) => element("option", {value}, text)));
}

function switchTable(name, choose) {
  Object.assign(tableState, {shown: name, column: -1, descending: false, selected: -1});
  for (const key of Object.keys(tables)) {
    const tab = byId(`tab-${key}`);
    tab.setAttribute("aria-selected", String(key === name));
    tab.tabIndex = key === name ? 0 : -1;
  }
  const table = tables[name];
  byId("table").setAttribute("aria-labelledby", `tab-${name}`);
  options(byId("filter-kind"), name === "nodes" ? "All types" : "All places", Object.entries(table.kinds));
  const found = [...new Set(table.rows.map(table.rule))].filter(Boolean).sort();
  options(byId("filter-rule"), "All rules", found.map((rule) => [rule, rule]));
  byId("filter-rule").hidden = found.length === 0;
  showTable(choose);
}

// `choose(table, index)`: a row was picked.
function startTables(choose) {
  for (const [key, table] of Object.entries(tables)) {
    const tab = byId(`tab-${key}`);
    tab.textContent = `${table.title} (${formatCount(table.rows.length)})`;
    tab.addEventListener("click", () => switchTable(key, choose));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = key === "nodes" ? "casts" : "nodes";
      switchTable(other, choose);
      byId(`tab-${other}`).focus();
    });
  }
  for (const id of ["filter", "filter-kind", "filter-rule"]) byId(id).addEventListener("input", () => showTable(choose));
  switchTable("nodes", choose);
}

function showRuleInTable(rule, choose) {
  switchTable("nodes", choose);
  byId("filter").value = "";
  byId("filter-rule").value = rule;
  showTable(choose);
  byId("tables").scrollIntoView({block: "start"});
}
