// A list of any length that only creates the visible rows.

const BEYOND = 6; // extra rows above and below the visible ones

/** Rows of `height` px made by `draw(place)`. Returns {node, set(count), show(place), redraw()}. */
function virtualList(height, draw, label) {
  const inner = el("div", { class: "vinner", role: "list" });
  const node = el("div", { class: "vlist", tabindex: -1, "aria-label": label }, inner);
  let count = 0, first = -1, last = -1;

  function update() {
    const top = Math.max(0, Math.floor(node.scrollTop / height) - BEYOND);
    const bottom = Math.min(count, Math.ceil((node.scrollTop + (node.clientHeight || 600)) / height) + BEYOND);
    if (top === first && bottom === last) return;
    first = top;
    last = bottom;
    const rows = [];
    for (let i = top; i < bottom; i++) {
      const row = draw(i);
      row.classList.add("vrow");
      row.style.setProperty("top", `${i * height}px`);
      row.style.setProperty("height", `${height}px`);
      rows.push(row);
    }
    inner.replaceChildren(...rows);
  }
  function redraw() {
    first = last = -1;
    update();
  }
  function set(length) {
    count = length;
    inner.style.setProperty("height", `${count * height}px`);
    node.classList.toggle("none", count === 0);
    redraw();
  }
  function show(place) {
    const top = place * height, room = node.clientHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + height > node.scrollTop + room) node.scrollTop = top + height - room;
    redraw();
  }
  node.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(node);
  return { node, set, show, redraw };
}
