// The report, and what the other parts ask of it. Names in it come from models that strangers made:
// they reach the page as text nodes only.
const report = JSON.parse(document.getElementById("report").textContent);
const nodes = report.graph.nodes;
const edges = report.graph.edges;
const layout = report.layout;

const byId = (id) => document.getElementById(id);

// element("p", {class: "soft"}, "text", child): attributes by name, functions as event listeners.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

const isLow = (dtype) => dtype === "float16" || dtype === "bfloat16";
const shortNames = new Map([["float", "fp32"], ["float16", "fp16"], ["bfloat16", "bf16"], ["double", "fp64"],
                            ["?", "no float"], ["", "no float"]]);
const shortType = (dtype) => shortNames.get(dtype) ?? dtype;

// The classes by which things are coloured and dimmed.
const kinds = {
  low: "Low precision",
  fp32: "FP32",
  cast: "Cast",
  other: "No floating point",
};
function kindOfType(dtype) {
  return isLow(dtype) ? "low" : dtype === "" || dtype === "?" ? "other" : "fp32";
}
const kindOf = nodes.map((node) => (node.kind === "cast" ? "cast" : kindOfType(node.dtype)));

const decisionOf = (i) => report.nodes[nodes[i].decision] ?? null;
const castOf = (i) => report.casts[nodes[i].cast] ?? null;
const castTypes = (cast) => `${shortType(cast.from)} \u2192 ${shortType(cast.to)}`;
const placeOf = (cast) => (cast.ahead_of_time ? "stored low" : cast.removed ? "removed" : "run time");

// Where each record stands in the picture.
const drawnOfDecision = new Map();
const drawnOfCast = new Map();
nodes.forEach((node, i) => {
  if (node.decision !== undefined) drawnOfDecision.set(node.decision, i);
  if (node.cast !== undefined) drawnOfCast.set(node.cast, i);
});

const inputsOf = nodes.map(() => []);
const outputsOf = nodes.map(() => []);
edges.forEach((edge, i) => {
  inputsOf[edge.to].push(i);
  if (edge.from !== undefined) outputsOf[edge.from].push(i);
});

const rules = {
  category: "Decided by the operator's category: contractions run low, what sums or exponentiates stays FP32.",
  pin: "Pinned to FP32: embedding, normalisation, softmax, loss, or asked for by --pin.",
  policy: "Asked for by --deny-op, --allow-op or a policy file.",
  range: "A constant lies beyond the low type's range.",
  schema: "The operator takes no such type at this opset.",
  cut: "Free to be either: the minimum cut took the cheaper side.",
  pattern: "Part of a decomposed LayerNorm, Softmax or the like, treated as one.",
  calibration: "Values measured on samples come too near the low type's limits.",
  forced: "Everything was forced to FP32.",
  "not-float": "Nothing to decide: no floating-point operand or result.",
};

// Three digits with a prefix.
function scaled(value, base, units) {
  let unit = 0;
  while (value >= base * 0.9995 && unit + 1 < units.length) {
    value /= base;
    ++unit;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)}\u202f${units[unit]}`;
}
const formatFlops = (value) => scaled(value, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);
const formatBytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
function formatTime(us) {
  if (us < 1) return `${us.toPrecision(2)}\u202f\u00b5s`;
  return us < 999.5 ? `${us.toPrecision(3)}\u202f\u00b5s`
      : us < 999.5e3 ? `${(us / 1e3).toPrecision(3)}\u202fms` : `${(us / 1e6).toPrecision(3)}\u202fs`;
}
const formatCount = (value) => value.toLocaleString("en");
const formatShare = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)}%` : "\u2013");

const tag = (kind, text) => element("span", {class: `tag ${kind}`}, text);
const typeTag = (dtype) => tag(kindOfType(dtype), shortType(dtype));
