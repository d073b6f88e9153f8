// A screen with the action drawn on it, and the UI element it touched.

/** SVG marks in pixels of the screen, so that circles stay round. */
function marks(action, width, height) {
  const unit = width / 100;
  const x = (v) => (v * width) / COORD_MAX, y = (v) => (v * height) / COORD_MAX;
  const ring = (r, extra) => ["halo", "ink"].map((kind) => svg("circle", {
    class: kind, cx: x(action.x), cy: y(action.y), r: r * unit, "stroke-width": (kind === "halo" ? 2.2 : 1.1) * unit, ...extra }));
  const dot = () => svg("circle", { class: "dot", cx: x(action.x), cy: y(action.y), r: 1.9 * unit, "stroke-width": 0.6 * unit });
  if (action.kind === "tap") return [...ring(5.5), dot()];
  if (action.kind === "long_press") return [...ring(5.5), ...ring(9, { "stroke-dasharray": `${3 * unit} ${3 * unit}` }), dot()];
  if (action.kind !== "swipe") return [];
  const [x1, y1, x2, y2] = [x(action.x), y(action.y), x(action.x2), y(action.y2)];
  const angle = Math.atan2(y2 - y1, x2 - x1), back = 4.5 * unit;
  const corner = (turn) => `${x2 - 1.6 * back * Math.cos(angle + turn)} ${y2 - 1.6 * back * Math.sin(angle + turn)}`;
  const end = { x: x2 - back * Math.cos(angle), y: y2 - back * Math.sin(angle) };
  return [
    ...["halo", "ink"].map((kind) => svg("line", { class: kind, x1, y1, x2: end.x, y2: end.y, "stroke-width": (kind === "halo" ? 3 : 1.7) * unit })),
    svg("path", { class: "head", d: `M${x2} ${y2}L${corner(0.45)}L${corner(-0.45)}Z` }),
    dot(),
  ];
}

function elementBox(element, width) {
  if (!element) return null;
  const [x1, y1, x2, y2] = element.box, unit = width / 100;
  return ["boxhalo", "box"].map((kind) => svg("rect", { class: kind, x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1),
    rx: unit, "stroke-width": (kind === "box" ? 0.9 : 1.8) * unit }));
}

function screenImage(row, step, missing) {
  if (!step.screen) return missing("No screenshot was taken at this step.");
  const image = el("img", { src: screenAddress(row, step.screen), alt: `Screen of ${step.app}`, loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(missing("The screenshot is not in screens/.")));
  return image;
}

/** The screen at its own proportions; `caption` says what has no place on the screen. */
function phone(row, step, small = false) {
  const width = step.width || 1, height = step.height || 1;
  const caption = small ? null : captionOf(step.action);
  return el("div", { class: small ? "phone small" : "phone", style: { "--ratio": String(width / height) } },
    screenImage(row, step, (text) => el("div", { class: "none" }, small ? "no screen" : text)),
    svg("svg", { class: "overlay", viewBox: `0 0 ${width} ${height}` }, elementBox(step.element, width), marks(step.action, width, height)),
    caption ? el("div", { class: "caption" }, el("b", {}, caption[0]), caption[1]) : null);
}

function elementText(element) {
  if (!element) return [el("p", { class: "muted" }, "none")];
  const [x1, y1, x2, y2] = element.box, box = `[${x1},${y1}][${x2},${y2}]`;
  return [el("p", {}, el("b", {}, element.class || "node"), element.text ? ` “${element.text}”` : ""),
    el("p", { class: "muted mono" }, [element.states.join(" "), box].filter(Boolean).join("  ·  "))];
}
