// The window onto the graph: pan, zoom, selection, the strip that shows all of it.
const view = {zoom: 1, x: 0, y: 0, selected: -1, hovered: -1, dimmed: new Set(), width: 0, height: 0, canvas: byId("canvas"), map: byId("map"), pending: false};
const minZoom = 0.02, maxZoom = 3;

function redraw() {
  if (view.pending) return;
  view.pending = true;
  requestAnimationFrame(() => {
    view.pending = false;
    paint();
    paintMap();
  });
}

function sizeCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const {width, height} = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  return {width, height, ratio};
}

// What stays bright when something is selected: it and its neighbours.
function litNodes() {
  if (view.selected < 0) return null;
  const lit = new Set([view.selected]);
  for (const e of inputsOf[view.selected]) if (edges[e].from !== undefined) lit.add(edges[e].from);
  for (const e of outputsOf[view.selected]) lit.add(edges[e].to);
  return lit;
}

function paint() {
  const {width, height, ratio} = sizeCanvas(view.canvas);
  Object.assign(view, {width, height});
  const context = view.canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(ratio * view.zoom, 0, 0, ratio * view.zoom, ratio * view.x, ratio * view.y);
  const left = -view.x / view.zoom, top = -view.y / view.zoom;
  const right = left + width / view.zoom, bottom = top + height / view.zoom;
  const lit = litNodes();
  paintEdges(context, {left, top, right, bottom}, lit);
  nodes.forEach((node, i) => {
    const box = boxes[i];
    if (box.x + box.width < left || box.x - box.width > right || box.y + box.height < top || box.y - box.height > bottom) return;
    const dim = view.dimmed.has(kindOf[i]) || (lit !== null && !lit.has(i));
    context.globalAlpha = dim ? 0.4 : 1;
    paintBox(context, i, view.zoom, i === view.selected, i === view.hovered);
  });
  context.globalAlpha = 1;
}

function paintEdges(context, window, lit) {
  const strong = [];
  edges.forEach((edge, e) => {
    const line = lines[e];
    if (line === null) return;
    const touches = edge.from === view.selected || edge.to === view.selected;
    if (touches) {
      strong.push(e);
      return;
    }
    if (line.right < window.left || line.left > window.right || line.bottom < window.top || line.top > window.bottom) return;
    const dim = lit !== null || view.dimmed.has(kindOf[edge.from]) || view.dimmed.has(kindOf[edge.to]);
    context.lineWidth = Math.max(1.3, 0.7 / view.zoom);
    if (isFar.has(e)) {
      if (view.zoom > 0.4) paintStubs(context, e, dim);
      return;
    }
    context.globalAlpha = dim ? 0.3 : 0.75;
    context.strokeStyle = view.zoom < 0.3 || line.kind === "other" ? colours.edge : colours[line.kind];
    context.stroke(line.path);
  });
  context.globalAlpha = 1;
  for (const e of strong) {
    context.strokeStyle = colours[lines[e].kind];
    context.lineWidth = Math.max(2.6, 1.6 / view.zoom);
    context.setLineDash(isFar.has(e) ? [8, 5] : []);
    context.stroke(lines[e].path);
  }
  context.setLineDash([]);
}

function paintMap() {
  const {width, height, ratio} = sizeCanvas(view.map);
  const context = view.map.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const sx = (width - 12) / layout.width, sy = (height - 12) / layout.height;
  const thick = Math.max(1, Math.min(5, 46 * sy));
  nodes.forEach((node, i) => {
    const box = boxes[i];
    context.globalAlpha = view.dimmed.has(kindOf[i]) ? 0.15 : 1;
    context.fillStyle = colours[kindOf[i]];
    const wide = Math.max(2, Math.min(box.width * sx, 40));
    context.fillRect(6 + box.x * sx - wide / 2, 6 + box.y * sy - thick / 2, wide, thick);
  });
  context.globalAlpha = 1;
  if (view.selected >= 0) {
    const y = 6 + boxes[view.selected].y * sy;
    context.fillStyle = colours.ink;
    context.fillRect(0, y - 1, width, 2);
  }
  const top = 6 + (-view.y / view.zoom) * sy, tall = (view.height / view.zoom) * sy;
  context.strokeStyle = colours.ink;
  context.lineWidth = 1.5;
  context.fillStyle = colours.ink;
  const y0 = Math.max(1, top), y1 = Math.min(height - 1, Math.max(top + tall, y0 + 6));
  context.globalAlpha = 0.08;
  context.fillRect(1, y0, width - 2, y1 - y0);
  context.globalAlpha = 1;
  context.strokeRect(1.5, y0, width - 3, y1 - y0);
}

function zoomAt(x, y, factor) {
  const zoom = Math.max(minZoom, Math.min(maxZoom, view.zoom * factor));
  view.x = x - ((x - view.x) * zoom) / view.zoom;
  view.y = y - ((y - view.y) * zoom) / view.zoom;
  view.zoom = zoom;
  redraw();
}

function fit() {
  const {width, height} = view.canvas.getBoundingClientRect();
  view.zoom = Math.max(minZoom, Math.min(1.2, width / layout.width, height / layout.height));
  view.x = (width - layout.width * view.zoom) / 2;
  view.y = (height - layout.height * view.zoom) / 2;
  redraw();
}

// At first: all of it where that is readable, else its beginning.
function firstView() {
  fit();
  if (view.zoom > 0.6 || nodes.length === 0) return;
  const {width, height} = view.canvas.getBoundingClientRect();
  const seen = boxes.filter((box) => box.y < height / 0.8);
  const left = Math.min(...seen.map((box) => box.x - box.width / 2));
  const right = Math.max(...seen.map((box) => box.x + box.width / 2));
  view.zoom = Math.max(0.6, Math.min(1, width / (right - left + 40)));
  view.x = width / 2 - ((left + right) / 2) * view.zoom;
  view.y = 0;
}

function centreOn(i, atOnce = false) {
  const zoom = Math.max(view.zoom, 0.85), box = boxes[i];
  const {width, height} = view.canvas.getBoundingClientRect();
  const to = {zoom, x: width / 2 - box.x * zoom, y: height / 2 - box.y * zoom};
  if (atOnce || window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
    Object.assign(view, to);
    redraw();
    return;
  }
  const from = {zoom: view.zoom, x: view.x, y: view.y}, start = performance.now();
  const id = (view.move = {});
  const step = (now) => {
    if (view.move !== id) return;
    const t = Math.min(1, (now - start) / 220), ease = 1 - (1 - t) ** 3;
    for (const key of ["zoom", "x", "y"]) view[key] = from[key] + (to[key] - from[key]) * ease;
    redraw();
    if (t < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

function nodeAt(x, y) {
  const wx = (x - view.x) / view.zoom, wy = (y - view.y) / view.zoom;
  for (let i = boxes.length - 1; i >= 0; --i) {
    const box = boxes[i];
    if (Math.abs(wx - box.x) <= box.width / 2 && Math.abs(wy - box.y) <= box.height / 2) return i;
  }
  return -1;
}

// `choose(i)` selects a node, -1 none.
function listenToPointer(choose) {
  const {canvas} = view;
  const held = new Map();  // pointers that are down
  let moved = 0;
  const place = (event) => {
    const area = canvas.getBoundingClientRect();
    return {x: event.clientX - area.left, y: event.clientY - area.top};
  };
  const spread = () => {
    const [a, b] = [...held.values()];
    return {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, apart: Math.hypot(a.x - b.x, a.y - b.y)};
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, place(event));
    view.move = null;
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event), was = held.get(event.pointerId);
    if (was === undefined) {
      const over = nodeAt(at.x, at.y);
      if (over === view.hovered) return;
      view.hovered = over;
      canvas.classList.toggle("over", over >= 0);
      canvas.title = over >= 0 ? nodes[over].name : "";
      redraw();
      return;
    }
    const before = held.size === 2 ? spread() : null;
    held.set(event.pointerId, at);
    moved += Math.abs(at.x - was.x) + Math.abs(at.y - was.y);
    if (before !== null) {
      const after = spread();
      if (before.apart > 0) zoomAt(after.x, after.y, after.apart / before.apart);
      return;
    }
    view.x += at.x - was.x;
    view.y += at.y - was.y;
    canvas.classList.toggle("dragging", moved > 4);
    redraw();
  });
  const release = (event) => {
    const at = held.get(event.pointerId);
    held.delete(event.pointerId);
    canvas.classList.remove("dragging");
    if (at !== undefined && moved <= 4 && event.type === "pointerup") choose(nodeAt(at.x, at.y));
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = place(event), lines16 = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) view.x -= event.deltaY * lines16;
    else return zoomAt(at.x, at.y, Math.exp(-event.deltaY * lines16 * (event.ctrlKey ? 0.01 : 0.0016)));
    redraw();
  }, {passive: false});
  const jump = (event) => {
    if (event.buttons === 0) return;
    const area = view.map.getBoundingClientRect();
    const y = ((event.clientY - area.top - 6) / (area.height - 12)) * layout.height;
    view.y = view.height / 2 - y * view.zoom;
    redraw();
  };
  view.map.addEventListener("pointerdown", (event) => { view.map.setPointerCapture(event.pointerId); view.move = null; jump(event); });
  view.map.addEventListener("pointermove", jump);
}

// Where an arrow key leads from the selected node.
function neighbour(i, key) {
  const up = inputsOf[i].map((e) => edges[e].from).filter((from) => from !== undefined);
  const down = outputsOf[i].map((e) => edges[e].to);
  if (key === "ArrowUp") return up[0] ?? -1;
  if (key === "ArrowDown") return down[0] ?? -1;
  const beside = boxes.map((box, k) => k).filter((k) => k !== i && Math.abs(boxes[k].y - boxes[i].y) < 20 &&
    (key === "ArrowLeft" ? boxes[k].x < boxes[i].x : boxes[k].x > boxes[i].x));
  beside.sort((a, b) => Math.abs(boxes[a].x - boxes[i].x) - Math.abs(boxes[b].x - boxes[i].x));
  return beside[0] ?? -1;
}

function listenToKeys(choose) {
  view.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const {key} = event;
    if (key === "+" || key === "=") zoomAt(view.width / 2, view.height / 2, 1.25);
    else if (key === "-") zoomAt(view.width / 2, view.height / 2, 0.8);
    else if (key === "f" || key === "0") fit();
    else if (key === "Escape") choose(-1);
    else if (key.startsWith("Arrow") && view.selected >= 0) {
      const next = neighbour(view.selected, key);
      if (next >= 0) choose(next);
    } else if (key === "Home" || (key.startsWith("Arrow") && nodes.length > 0)) choose(0);
    else return;
    event.preventDefault();
  });
}
