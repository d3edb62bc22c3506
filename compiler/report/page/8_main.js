// Puts the parts together. The address names what is selected: #node=NAME or #cast=TENSOR.
function setAddress(text) {
  if (text === location.hash) return;
  try {
    history.replaceState(null, "", text === "" ? location.pathname + location.search : text);
  } catch {
    // Some browsers forbid this for local files; the page works without.
  }
}

function select(i, atOnce = false) {
  if (i === undefined) return;
  view.selected = i;
  showDetails(i, select);
  const row = i < 0 ? undefined : nodes[i].decision;
  if (tableState.shown === "nodes") tableState.selected = row ?? -1;
  if (i < 0) setAddress("");
  else {
    const cast = castOf(i);
    setAddress(cast ? `#cast=${encodeURIComponent(cast.value)}` : `#node=${encodeURIComponent(nodes[i].name)}`);
    centreOn(i, atOnce);
  }
  redraw();
}

// Shows a record: in the graph if it is drawn there, else in the panel alone.
function selectRecord(table, index, atOnce = false) {
  const drawn = tables[table].drawn.get(index), record = tables[table].rows[index];
  if (drawn !== undefined) {
    select(drawn, atOnce);
    return;
  }
  view.selected = -1;
  if (table === "casts") showCastRecord(record, select);
  else showNodeRecord(record);
  setAddress(table === "casts" ? `#cast=${encodeURIComponent(record.value)}` : `#node=${encodeURIComponent(record.name)}`);
  redraw();
}

function chooseRow(table, index) {
  if (nodes.length === 0) return;  // a report without a picture
  tableState.selected = index;
  selectRecord(table, index);
  byId("graph").scrollIntoView({block: "start"});
}

function selectFromAddress() {
  const found = /^#(node|cast)=(.*)$/.exec(location.hash);
  if (found === null || nodes.length === 0) return;
  byId("graph").scrollIntoView({block: "start"});
  let name = found[2];
  try {
    name = decodeURIComponent(name);
  } catch {
    // Not encoded: taken as it is.
  }
  if (found[1] === "node") {
    const i = nodes.findIndex((node) => node.name === name);
    if (i >= 0) return select(i, true);
  }
  const table = found[1] === "node" ? "nodes" : "casts";
  const index = tables[table].rows.findIndex((row) => (row.name ?? row.value) === name);
  if (index >= 0) selectRecord(table, index, true);
}

function startLegend() {
  const counts = {};
  for (const kind of kindOf) counts[kind] = (counts[kind] ?? 0) + 1;
  for (const [kind, title] of Object.entries(kinds)) {
    if (!counts[kind]) continue;
    const button = element("button", {type: "button", "aria-pressed": "true", title: "Show or dim", click: () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      if (shown) view.dimmed.delete(kind);
      else view.dimmed.add(kind);
      redraw();
    }}, element("span", {class: `swatch ${kind}`}), `${title} ${formatCount(counts[kind])}`);
    byId("legend").append(button);
  }
}

function saveJson() {
  const {layout: unused, ...plain} = report;
  const address = URL.createObjectURL(new Blob([JSON.stringify(plain, null, 1) + "\n"], {type: "application/json"}));
  element("a", {href: address, download: `${report.model || "model"}.report.json`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function startGraph() {
  if (nodes.length === 0) {
    byId("graph").remove();
    return;
  }
  startLegend();
  startSearch(select);
  listenToPointer(select);
  listenToKeys(select);
  byId("zoom-in").addEventListener("click", () => zoomAt(view.width / 2, view.height / 2, 1.3));
  byId("zoom-out").addEventListener("click", () => zoomAt(view.width / 2, view.height / 2, 1 / 1.3));
  byId("zoom-fit").addEventListener("click", fit);
  new ResizeObserver(redraw).observe(view.canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  showDetails(-1, select);
  firstView();
}

readColours();
showTotals();
showNotes();
showRules((rule) => showRuleInTable(rule, chooseRow));
showHeld(chooseRow);
showCalibration();
showComparison();
showPolicy();
startTables(chooseRow);
startGraph();
byId("save").addEventListener("click", saveJson);
window.addEventListener("hashchange", selectFromAddress);
if (nodes.length > 0) {
  paint();
  paintMap();
}
selectFromAddress();
document.documentElement.dataset.rendered = String(nodes.length);
