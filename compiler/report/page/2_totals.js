// Head of the page: totals, warnings, and the reasons in numbers.
function bar(kind, share) {
  return element("span", {class: `fill-${kind}`, style: `width:${Math.max(0, Math.min(100, 100 * share)).toFixed(2)}%`});
}

// Which rule keeps the most work in FP32, in words.
function verdict() {
  const {flops, low_flops: low} = report.totals;
  if (!(flops > 0)) return "No operation count: shapes are not known statically.";
  const kept = sumRules().map(([rule, sum]) => [rule, sum.fp32Flops]).sort((a, b) => b[1] - a[1])[0];
  if (kept === undefined || kept[1] <= 0) return "All counted work runs in low precision.";
  return `Of the ${formatFlops(flops - low)} kept in FP32, ${formatShare(kept[1], flops - low)} falls to the rule \u201c${kept[0]}\u201d.`;
}

function hero() {
  const {flops, low_flops: low} = report.totals;
  const share = flops > 0 ? low / flops : 0;
  return element("div", {class: "card hero"},
    element("div", {},
      element("h3", {}, "Floating-point operations in low precision"),
      element("div", {class: "number"}, formatShare(low, flops)),
      element("p", {class: "soft"}, verdict())),
    element("div", {},
      element("div", {class: "meter", role: "img", "aria-label": `${formatShare(low, flops)} low, the rest FP32`},
        bar("low", share), flops > 0 ? bar("fp32", 1 - share) : null),
      element("div", {class: "key"},
        element("span", {class: "low"}, `${report.precision === "fp32" ? "low" : report.precision} ${formatFlops(low)}`),
        element("span", {class: "fp32"}, `fp32 ${formatFlops(flops - low)}`))));
}

function stat(title, number, unit, note) {
  return element("div", {class: "card stat"}, element("h3", {}, title),
    element("div", {class: "number"}, number, unit ? element("span", {class: "unit"}, ` ${unit}`) : null),
    note ? element("div", {class: "soft"}, note) : null);
}

function beforeAfter(title, before, after) {
  if (!(before > 0)) return stat(title, "\u2013", "", "not known");
  const percent = Math.abs(100 * (1 - after / before));
  const change = after === before ? "unchanged" : `${after < before ? "\u2212" : "+"}${percent.toFixed(percent < 10 ? 1 : 0)}%`;
  return stat(title, formatBytes(after), change, `was ${formatBytes(before)}`);
}

function times() {
  const {method, objective_us: chosen, alternative_us: other, all_fp32_us: fp32} = report.cost;
  if (!(fp32 > 0)) return null;
  const most = Math.max(chosen, other, fp32);
  const otherName = method === "cut" ? "Propagation" : "Minimum cut";
  const rows = [["All FP32", fp32, "fp32"], [otherName, other, "other"],
                [method === "cut" ? "Minimum cut, chosen" : "Propagation, chosen", chosen, "low"]];
  return element("div", {class: "card stat"},
    element("h3", {}, `Predicted time on ${report.target || "the target"}`),
    element("div", {class: "bars"}, rows.flatMap(([name, us, kind], i) => [
      element(i === 2 ? "b" : "span", {}, name),
      element("span", {class: "track"}, bar(kind, us / most)),
      element(i === 2 ? "b" : "span", {class: "num"}, formatTime(us))])),
    element("div", {class: "soft"}, chosen > 0 ? `${(fp32 / chosen).toFixed(2)}\u00d7 as fast as all FP32 by the cost model, casts included` : ""));
}

function planned() {
  const {planned_peak: peak, live} = report.bytes;
  if (!(peak > 0)) return null;
  return stat("Planned memory", formatBytes(peak), "peak", live > 0 ? `${formatBytes(live)} alive together at most` : "");
}

function showTotals() {
  const {totals, bytes} = report;
  const stored = report.casts.filter((cast) => cast.ahead_of_time).length;
  byId("model").textContent = report.model || "report";
  document.title = `${report.model || "report"} \u2013 mezzo`;
  byId("facts").append(...[report.precision, report.target && `for ${report.target}`,
    report.cost.method && `assigned by ${report.cost.method === "cut" ? "minimum cut" : report.cost.method}`]
    .filter(Boolean).map((text) => element("span", {class: "chip"}, text)));
  const first = [
    hero(),
    stat("Nodes in low precision", formatCount(totals.low_nodes), `of ${formatCount(totals.nodes)}`,
         `${formatCount(totals.nodes - totals.low_nodes)} stay FP32`),
    stat("Casts at run time", formatCount(totals.casts), "", totals.casts > 0 ? `${formatBytes(totals.cast_bytes)} read and written` : "nothing to move"),
    beforeAfter("Weights", bytes.weights_before, bytes.weights_after),
    beforeAfter("Activations", bytes.activations_before, bytes.activations_after)];
  const second = [times(), planned(),
    stored > 0 ? stat("Weights stored low", formatCount(stored), "", "cast ahead of time, free at run time") : null].filter(Boolean);
  if (second.length > 0) second[0].style.setProperty("--span", String(5 - second.length));  // four columns, filled
  byId("totals").append(...first, ...second);
  const version = report.tool_version ? ` ${report.tool_version}` : "";
  byId("footer").textContent = `Made by mezzo${version}. Everything on this page is in this one file.`;
}

function list(items) {
  return element("ul", {}, items.map((item) => element("li", {}, item)));
}

function showNotes() {
  if (report.warnings.length > 0) {
    byId("notes").append(element("div", {class: "note"},
      element("b", {}, report.warnings.length === 1 ? "Warning" : `${report.warnings.length} warnings`), list(report.warnings)));
  }
  if (report.pads.length > 0) {
    byId("notes").append(element("details", {class: "card plain", open: report.pads.length <= 8},
      element("summary", {}, `Channel padding (${report.pads.length})`), list(report.pads)));
  }
}

function sumRules() {
  const sums = new Map();
  for (const node of report.nodes) {
    const sum = sums.get(node.rule) ?? {low: 0, fp32: 0, other: 0, fp32Flops: 0};
    ++sum[kindOfType(node.dtype)];
    if (kindOfType(node.dtype) === "fp32") sum.fp32Flops += node.flops;
    sums.set(node.rule, sum);
  }
  return [...sums].sort((a, b) => b[1].low + b[1].fp32 - a[1].low - a[1].fp32);
}

// `choose(rule)` shows the rule's nodes in the table below.
function showRules(choose) {
  const head = ["Rule", "Low", "FP32", "No float", "FLOPs kept FP32"];
  byId("rules").append(element("div", {class: "card"}, element("h3", {}, "Nodes per rule"),
    element("table", {class: "compact"},
      element("thead", {}, element("tr", {}, head.map((text, i) => element("th", {class: i > 0 ? "num" : "", scope: "col"}, text)))),
      element("tbody", {}, sumRules().map(([rule, sum]) => element("tr", {},
        element("td", {}, element("button", {class: "link", type: "button", click: () => choose(rule)}, rule),
          element("div", {class: "soft"}, rules[rule] ?? "")),
        element("td", {class: "num"}, sum.low || "\u2013"), element("td", {class: "num"}, sum.fp32 || "\u2013"),
        element("td", {class: "num"}, sum.other || "\u2013"),
        element("td", {class: "num"}, sum.fp32Flops > 0 ? formatFlops(sum.fp32Flops) : "\u2013")))))));
}

// The dearest nodes that stay FP32: what to look at if one wants more.
function showHeld(choose) {
  const held = report.nodes.map((node, i) => ({node, i}))
    .filter(({node}) => kindOfType(node.dtype) === "fp32" && node.flops > 0)
    .sort((a, b) => b.node.flops - a.node.flops).slice(0, 6);
  const total = report.totals.flops;
  const rows = held.map(({node, i}) => element("tr", {},
    element("td", {}, element("button", {class: "link mono", type: "button", click: () => choose("nodes", i)}, node.name),
      element("div", {class: "soft"}, `${node.op}: ${node.cause}`)),
    element("td", {class: "num"}, element("span", {class: "share"}, bar("fp32", node.flops / (held[0].node.flops || 1))),
      formatFlops(node.flops), element("div", {class: "soft"}, `${formatShare(node.flops, total)} of all`))));
  byId("held").append(element("div", {class: "card"}, element("h3", {}, "Largest work kept in FP32"),
    held.length === 0 ? element("p", {class: "soft"}, "None: all counted work runs in low precision.")
      : element("table", {class: "compact"}, element("tbody", {}, rows))));
}

// What other policies would give.
function showComparison() {
  if (report.comparison.length === 0) return;
  const head = ["Policy", "Low FLOPs", "Casts", "Bytes cast", "Weights", "Activations", "Predicted time"];
  const row = (other) => [formatShare(other.low_flops, other.flops), formatCount(other.casts), formatBytes(other.cast_bytes),
    formatBytes(other.weight_bytes), formatBytes(other.activation_bytes), formatTime(other.predicted_us)];
  byId("comparison").append(element("div", {class: "card"}, element("h3", {}, "Policies compared"),
    element("table", {class: "compact"},
      element("thead", {}, element("tr", {}, head.map((text, i) => element("th", {class: i > 0 ? "num" : "", scope: "col"}, text)))),
      element("tbody", {}, report.comparison.map((other) => element("tr", {},
        element("td", {}, element(other.chosen ? "b" : "span", {}, other.chosen ? `${other.policy}, this one` : other.policy)),
        row(other).map((text) => element("td", {class: "num"}, text))))))));
}

// What running the FP32 graph on samples found, and which nodes run otherwise for it.
const calibrationError = (error) => (error === null ? "not finite" : error.toPrecision(2));

function calibrationFacts(found) {
  const kept = found.changes.filter((change) => !isLow(change.after)).length;
  const facts = [`${formatCount(found.samples)} sample${found.samples === 1 ? "" : "s"} of ${found.sources.join(", ")}, ${formatCount(found.tensors)} tensors measured.`,
    `${formatCount(kept)} of the nodes would run low without it` + (found.changes.length > kept ? `, ${formatCount(found.changes.length - kept)} FP32.` : ".")];
  if (found.avoided_by_bf16 > 0) facts.push(`${formatCount(found.avoided_by_bf16)} of them could run in BF16, whose range is that of FP32.`);
  if (found.output_error !== undefined) facts.push(`Outputs on the samples depart from FP32 by ${calibrationError(found.output_error)} of their largest magnitude at most.`);
  return facts;
}

function calibrationTable(title, head, rows) {
  if (rows.length === 0) return null;
  return element("details", {open: rows.length <= 12}, element("summary", {}, `${title} (${formatCount(rows.length)})`),
    element("table", {class: "compact"},
      element("thead", {}, element("tr", {}, head.map((text) => element("th", {scope: "col"}, text)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map((text, i) => element("td", {class: i === 0 ? "mono" : ""}, text)))))));
}

function showCalibration() {
  const found = report.calibration;
  if (found === undefined) return;
  byId("calibration").append(element("div", {class: "card"}, element("h3", {}, "Calibration"),
    list(calibrationFacts(found)),
    calibrationTable("Nodes that run otherwise than without samples", ["Node", "Operator", "Without", "Now"],
      found.changes.map((change) => [`${change.scope}${change.node}`, change.op, shortType(change.before), shortType(change.after)])),
    calibrationTable("Tensors near the limits", ["Tensor", "From", "To", "Finding"],
      found.near_limit.map((tensor) => [`${tensor.scope}${tensor.tensor}`, tensor.lowest.toPrecision(4), tensor.highest.toPrecision(4), tensor.note]))));
}

function showPolicy() {
  if (report.policy.length === 0) return;
  byId("policy").append(element("details", {class: "card", open: true}, element("summary", {}, "Policy in effect"),
    element("dl", {}, report.policy.flatMap(({name, value}) => [
      element("dt", {class: "soft"}, name), element("dd", {class: "mono"}, value)]))));
}
