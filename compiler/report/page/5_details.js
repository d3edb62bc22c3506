// The panel beside the graph: what is selected, why it is as it is, and its neighbours.
function jumpTo(i, text, select) {
  return element("button", {class: "link", type: "button", click: () => select(i)}, text ?? nodes[i].name);
}

function facts(pairs) {
  return element("dl", {}, pairs.filter(Boolean).flatMap(([name, value, style]) => [
    element("dt", {}, name), element("dd", {class: style ?? ""}, value)]));
}

function inputItem(e, select) {
  const edge = edges[e];
  const type = element("span", {class: `mono ${edgeKind(edge)}`}, readableType(edge.type));
  const from = edge.from === undefined ? element("span", {class: "soft"}, "weight or constant")
    : element("span", {}, "from ", jumpTo(edge.from, null, select));
  return element("li", {}, element("div", {class: "mono"}, edge.value), from, " ", type);
}

function outputItem(e, select) {
  const edge = edges[e];
  return element("li", {}, element("div", {class: "mono"}, edge.value),
    nodes[edge.to].kind === "output" ? "graph output " : "read by ", jumpTo(edge.to, null, select), " ",
    element("span", {class: `mono ${edgeKind(edge)}`}, readableType(edge.type)));
}

function nodeFacts(decision) {
  return [
    element("p", {class: "cause"}, element("b", {}, `${decision.rule}: `), decision.cause || "no further cause",
      element("div", {class: "soft"}, rules[decision.rule] ?? "")),
    facts([
      ["Runs in", typeTag(decision.dtype)],
      decision.domain && ["Domain", decision.domain, "mono"],
      ["Work", decision.flops > 0 ? `${formatFlops(decision.flops)}, ${formatShare(decision.flops, report.totals.flops)} of all` : "none counted"],
      ["Moves", formatBytes(decision.bytes)],
      decision.flops > 0 && decision.bytes > 0 && ["Intensity", `${(decision.flops / decision.bytes).toPrecision(3)} FLOP per byte`],
    ])];
}

function castFacts(cast, select) {
  const named = (name) => {
    const i = nodes.findIndex((node) => node.kind !== "output" && node.name === name);
    return i >= 0 ? jumpTo(i, null, select) : name;
  };
  return [
    element("p", {class: "cause"}, cast.cause || "no further cause"),
    facts([
      ["Types", tag("cast", castTypes(cast))],
      ["Tensor", cast.value, "mono"],
      ["Made by", named(cast.producer)],
      ["Where", placeOf(cast)],
      ["Moves", cast.ahead_of_time ? "nothing at run time" : formatBytes(cast.bytes)],
    ]),
    element("h3", {}, `For ${cast.consumers.length} reader${cast.consumers.length === 1 ? "" : "s"}`),
    element("ul", {}, cast.consumers.slice(0, 100).map((name) => element("li", {}, named(name))))];
}

function emptyDetails() {
  return [
    element("p", {class: "title"}, "Select a node"),
    element("p", {class: "soft"}, "Click a node or a cast to see which rule decided, why, and what it moves. Then walk along its inputs and outputs."),
    element("h3", {}, "Reading the picture"),
    element("ul", {},
      element("li", {}, tag("low", "bf16"), " or ", tag("low", "fp16"), " blue, one solid band: low precision"),
      element("li", {}, tag("fp32", "fp32"), " orange, two thin bands: FP32"),
      element("li", {}, tag("cast", "fp32 \u2192 bf16"), " rounded: a cast at run time"),
      element("li", {}, tag("other", "no float"), " dashed: shapes, indices, booleans"),
      element("li", {}, "Dotted stubs: an edge too long to draw; select an end to see it")),
    element("h3", {}, "Keys"),
    element("ul", {}, element("li", {}, "drag, wheel, pinch: pan and zoom; Shift and wheel: sideways"),
      element("li", {}, "arrows: walk along edges; + and \u2212: zoom; f: fit; Esc: clear; /: find"))];
}

function showDetails(i, select) {
  const panel = byId("details");
  panel.scrollTop = 0;
  if (i < 0) return panel.replaceChildren(...emptyDetails());
  const node = nodes[i], decision = decisionOf(i), cast = castOf(i);
  const titles = {node: node.op, cast: "Cast", input: "Graph input", output: "Graph output"};
  const parts = [
    element("p", {class: "title"}, titles[node.kind], node.kind === "cast" ? null : typeTag(node.dtype)),
    element("p", {class: "mono"}, node.name)];
  if (decision) parts.push(...nodeFacts(decision));
  else if (cast) parts.push(...castFacts(cast, select));
  else if (node.kind === "node" || node.kind === "cast") parts.push(element("p", {class: "cause"}, "Made by a later pass; no decision of its own."));
  if (node.type && node.kind !== "cast") parts.push(element("h3", {}, "Type"), element("p", {class: "mono"}, readableType(node.type)));
  const section = (title, found, item) => {
    if (found.length === 0) return;
    parts.push(element("h3", {}, `${title} (${found.length})`), element("ul", {}, found.slice(0, 200).map((e) => item(e, select))));
    if (found.length > 200) parts.push(element("p", {class: "soft"}, `and ${found.length - 200} more`));
  };
  section("Inputs", inputsOf[i], inputItem);
  section("Outputs", outputsOf[i], outputItem);
  panel.replaceChildren(...parts);
}

// Records that are not in the picture: constants, nodes that later passes removed, weights stored
// low, casts that were folded.
function whereRecordIs(decision) {
  if (decision.scope) return `Stands in ${decision.scope.replace(/ > $/, "")}: graphs inside nodes are not drawn.`;
  return decision.op === "Constant" ? "Constants are not drawn." : "No longer in the converted graph.";
}

function showNodeRecord(decision) {
  byId("details").replaceChildren(element("p", {class: "title"}, decision.op, typeTag(decision.dtype)),
    element("p", {class: "mono"}, decision.scope + decision.name), ...nodeFacts(decision),
    element("p", {class: "soft"}, whereRecordIs(decision)));
}

function showCastRecord(cast, select) {
  byId("details").replaceChildren(element("p", {class: "title"}, cast.ahead_of_time ? "Stored low" : "Cast, removed"),
    element("p", {class: "mono"}, cast.value), ...castFacts(cast, select));
}
