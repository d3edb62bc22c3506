// Finds nodes by name, operator or tensor.
const search = {hits: [], active: -1};

function scoreOf(text, wanted) {
  const lower = text.toLowerCase();
  if (lower === wanted) return 0;
  if (lower.startsWith(wanted)) return 1;
  return lower.includes(wanted) ? 2 : -1;
}

// The best hits, one per node: by its name, its operator, then by a tensor it makes or reads.
function findHits(text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const best = new Map();
  const offer = (i, score, note) => {
    if (score >= 0 && (!best.has(i) || best.get(i).score > score)) best.set(i, {i, score, note});
  };
  nodes.forEach((node, i) => {
    offer(i, scoreOf(node.name, wanted), node.op || node.kind);
    const byOp = scoreOf(node.op, wanted);
    offer(i, byOp < 0 ? -1 : byOp + 0.5, node.op);
  });
  for (const edge of edges) {
    const score = scoreOf(edge.value, wanted);
    if (score >= 0) offer(edge.from ?? edge.to, score + 0.7, edge.from === undefined ? `reads ${edge.value}` : `makes ${edge.value}`);
  }
  return [...best.values()].sort((a, b) => a.score - b.score || a.i - b.i);
}

function showHits(select) {
  const box = byId("hits"), input = byId("search");
  box.hidden = search.hits.length === 0 && input.value.trim() === "";
  input.setAttribute("aria-expanded", String(!box.hidden));
  if (search.active >= 0) input.setAttribute("aria-activedescendant", `hit-${search.active}`);
  else input.removeAttribute("aria-activedescendant");
  const shown = search.hits.slice(0, 40);
  const items = shown.map((hit, k) => {
    const item = element("li", {id: `hit-${k}`, role: "option", "aria-selected": String(k === search.active),
      pointerdown: (event) => { event.preventDefault(); closeHits(); select(hit.i); }},
      tag(kindOf[hit.i], nodes[hit.i].kind === "node" ? shortType(nodes[hit.i].dtype) : nodes[hit.i].kind),
      element("span", {class: "mono"}, nodes[hit.i].name), element("span", {class: "soft"}, hit.note));
    return item;
  });
  const rest = search.hits.length - shown.length;
  if (search.hits.length === 0) items.push(element("li", {class: "soft"}, "Nothing of that name."));
  if (rest > 0) items.push(element("li", {class: "soft"}, `and ${rest} more: type on`));
  box.replaceChildren(...items);
  byId(`hit-${search.active}`)?.scrollIntoView({block: "nearest"});
}

function closeHits() {
  byId("hits").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
}

function startSearch(select) {
  const input = byId("search");
  input.addEventListener("input", () => {
    search.hits = findHits(input.value);
    search.active = search.hits.length > 0 ? 0 : -1;
    showHits(select);
  });
  input.addEventListener("keydown", (event) => {
    const last = Math.min(search.hits.length, 40) - 1;
    if (event.key === "ArrowDown") search.active = Math.min(last, search.active + 1);
    else if (event.key === "ArrowUp") search.active = Math.max(0, search.active - 1);
    else if (event.key === "Enter" && search.active >= 0) {
      closeHits();
      select(search.hits[search.active].i);
      return;
    } else if (event.key === "Escape") {
      closeHits();
      return;
    } else return;
    event.preventDefault();
    showHits(select);
  });
  input.addEventListener("blur", closeHits);
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
