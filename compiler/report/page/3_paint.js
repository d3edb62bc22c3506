// Draws the graph onto a canvas. Coordinates of the layout are in CSS pixels at zoom 1.
const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "card", "ink", "soft", "line", "low", "low-fill", "fp32", "fp32-fill", "cast", "cast-fill", "other", "other-fill", "edge", "focus"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

const boxes = layout.boxes.map(([x, y, width, height]) => ({x, y, width, height}));
const isFar = new Set(layout.far);
const textFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const monoFont = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace';

// Lines enter a node side by side, in the order in which they come.
function entryPoints() {
  const entries = edges.map((edge) => boxes[edge.to].x);
  inputsOf.forEach((incoming, i) => {
    const drawn = incoming.filter((e) => edges[e].from !== undefined && !isFar.has(e));
    const comesFrom = (e) => {
      const bends = layout.bends[e] ?? [];
      return bends.length > 0 ? bends[bends.length - 2] : boxes[edges[e].from].x;
    };
    drawn.sort((a, b) => comesFrom(a) - comesFrom(b));
    const step = Math.min(22, (boxes[i].width * 0.7) / Math.max(1, drawn.length - 1));
    drawn.forEach((e, k) => { entries[e] = boxes[i].x + (k - (drawn.length - 1) / 2) * step; });
  });
  return entries;
}

function curve(points) {
  const path = new Path2D();
  path.moveTo(points[0], points[1]);
  for (let k = 2; k < points.length; k += 2) {
    const [x0, y0, x1, y1] = [points[k - 2], points[k - 1], points[k], points[k + 1]];
    const middle = (y0 + y1) / 2;
    if (Math.abs(x0 - x1) < 0.5) path.lineTo(x1, y1);
    else path.bezierCurveTo(x0, middle, x1, middle, x1, y1);
  }
  return path;
}

// Per drawn edge its path and the rectangle around it; far ones get theirs when asked for.
const lines = (() => {
  const entries = entryPoints();
  return edges.map((edge, e) => {
    if (edge.from === undefined) return null;
    const from = boxes[edge.from], to = boxes[edge.to];
    const points = [from.x, from.y + from.height / 2, ...(layout.bends[e] ?? []), entries[e], to.y - to.height / 2];
    const xs = points.filter((_, k) => k % 2 === 0);
    return {path: curve(points), left: Math.min(...xs), right: Math.max(...xs), top: points[1], bottom: points[points.length - 1],
            kind: edgeKind(edge)};
  });
})();

function edgeKind(edge) {
  const dtype = edge.type.split("[")[0];
  return isLow(dtype) ? "low" : dtype === "float" || dtype === "double" ? "fp32" : "other";
}

// "float16[1,64,?]" -> "fp16 1\u00d764\u00d7?"
function readableType(type) {
  const parts = /^([^[]*)\[(.*)\]$/.exec(type);
  if (parts === null) return shortType(type);
  return `${shortType(parts[1])} ${parts[2] === "" ? "scalar" : parts[2].replaceAll(",", "\u00d7")}`;
}

const cutTexts = new Map();
function cutText(context, text, width, font, keepEnd) {
  const key = `${font}|${width}|${text}`;
  const known = cutTexts.get(key);
  if (known !== undefined) return known;
  let cut = text;
  if (context.measureText(text).width > width) {
    const keeping = (count) => (keepEnd ? `\u2026${text.slice(text.length - count)}` : `${text.slice(0, count)}\u2026`);
    let low = 0, high = Math.min(text.length, 200);
    while (low < high) {
      const keep = (low + high + 1) >> 1;
      if (context.measureText(keeping(keep)).width <= width) low = keep;
      else high = keep - 1;
    }
    cut = keeping(low);
  }
  cutTexts.set(key, cut);
  return cut;
}

// `keepEnd`: where the text is too long its end stays, which tells more of a node's name.
function paintText(context, text, x, y, width, font, colour, {align = "left", keepEnd = false, halo = false} = {}) {
  context.font = font;
  context.fillStyle = colour;
  context.textAlign = align;
  context.textBaseline = "middle";
  const shown = cutText(context, text, width, font, keepEnd);
  if (halo) {
    context.strokeStyle = colours.card;
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(shown, x, y);
  }
  context.fillText(shown, x, y);
}

function paintBoxText(context, i, zoom) {
  const node = nodes[i], box = boxes[i], kind = kindOf[i];
  const left = box.x - box.width / 2;
  if (node.kind === "cast") {
    const cast = castOf(i);
    const text = cast ? castTypes(cast) : `Cast to ${shortType(node.dtype)}`;
    paintText(context, text, box.x, box.y, box.width - 16, `600 12px ${monoFont}`, colours.cast, {align: "center"});
    return;
  }
  if (node.kind !== "node") {
    const dy = zoom > 0.4 ? 8 : 0;
    paintText(context, node.name, box.x, box.y - dy, box.width - 24, `600 13px ${textFont}`, colours.ink, {align: "center", keepEnd: true});
    if (dy > 0) paintText(context, `${node.kind} ${readableType(node.type)}`, box.x, box.y + dy, box.width - 24, `11px ${textFont}`, colours.soft, {align: "center"});
    return;
  }
  const label = kind === "other" ? "" : shortType(node.dtype);
  const twoLines = zoom > 0.5;
  const y = twoLines ? box.y - 9 : box.y;
  paintText(context, node.op, left + 14, y, box.width - (label ? 66 : 24), `600 ${twoLines ? 13.5 : 16}px ${textFont}`, colours.ink);
  if (label) paintText(context, label, box.x + box.width / 2 - 10, y, 60, `700 ${twoLines ? 11 : 13}px ${monoFont}`, colours[kind], {align: "right"});
  if (twoLines) paintText(context, node.name, left + 14, box.y + 11, box.width - 24, `11px ${textFont}`, colours.soft, {keepEnd: true});
}

function shape(context, i) {
  const box = boxes[i];
  const radius = nodes[i].kind === "node" ? 7 : box.height / 2;
  context.beginPath();
  context.roundRect(box.x - box.width / 2, box.y - box.height / 2, box.width, box.height, radius);
}

function paintBox(context, i, zoom, isSelected, isHovered) {
  const node = nodes[i], box = boxes[i], kind = kindOf[i];
  shape(context, i);
  // Far away text is gone, and the colour must speak alone.
  context.fillStyle = zoom < 0.3 ? colours[kind] : node.kind === "node" || node.kind === "cast" ? colours[`${kind}-fill`] : colours.card;
  context.fill();
  context.strokeStyle = isSelected ? colours.ink : colours[kind];
  context.lineWidth = isSelected ? Math.max(3, 2.5 / zoom) : isHovered ? 2.5 : 1.4;
  if (kind === "other") context.setLineDash([4, 3]);
  context.stroke();
  context.setLineDash([]);
  if (zoom < 0.3) return;
  if (node.kind === "node" && kind !== "other") {
    // Low precision: a solid band at the side; FP32: two thin ones.
    const left = box.x - box.width / 2;
    context.fillStyle = colours[kind];
    if (kind === "low") context.fillRect(left + 1, box.y - box.height / 2 + 6, 5, box.height - 12);
    else for (const dx of [1, 4]) context.fillRect(left + dx, box.y - box.height / 2 + 6, 1.8, box.height - 12);
  }
  paintBoxText(context, i, zoom);
  if (zoom > 0.8 && node.kind === "node" && node.type && outputsOf[i].length > 0) {
    paintText(context, readableType(node.type), box.x + 7, box.y + box.height / 2 + 11, 190, `10.5px ${monoFont}`, colours.soft, {halo: true});
  }
}

// Edges too long to draw leave a dotted stub at both ends.
function paintStubs(context, e, dim) {
  const edge = edges[e];
  context.globalAlpha = dim ? 0.15 : 0.8;
  context.setLineDash([2, 3]);
  context.strokeStyle = colours[lines[e].kind];
  const from = boxes[edge.from], to = boxes[edge.to];
  context.beginPath();
  context.moveTo(from.x - from.width * 0.3, from.y + from.height / 2);
  context.lineTo(from.x - from.width * 0.3, from.y + from.height / 2 + 13);
  context.moveTo(to.x + to.width * 0.3, to.y - to.height / 2 - 13);
  context.lineTo(to.x + to.width * 0.3, to.y - to.height / 2);
  context.stroke();
  context.setLineDash([]);
}
