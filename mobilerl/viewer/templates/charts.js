// Line charts over iterations, steps or minutes. Pointing at one of a set shows the same place in all of them.

const BOX = { height: 150, left: 42, right: 12, top: 8, bottom: 20 };
const SMOOTHING = 0.8;
const DASHES = ["none", "7 4", "1.5 3.5", "9 3 2 3"];

/** Exponential moving average, corrected for its start; gaps stay gaps. */
function smoothed(values) {
  let sum = 0, weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = SMOOTHING * sum + (1 - SMOOTHING) * value;
    weight = SMOOTHING * weight + (1 - SMOOTHING);
    return sum / weight;
  });
}

/** The values of a metric, null where it is not a number; [] where the run never had it. */
function column(metrics, key) {
  return (metrics[key] || []).map((value) => (typeof value === "number" ? value : null));
}

/** About `count` round numbers that cover [low, high]. */
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * (1 - 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

function range(values, spec) {
  if (spec.domain) return spec.domain;
  let [low, high] = extent(values.filter((value) => value !== null)) || [0, 1];
  if (spec.zero) low = Math.min(0, low);
  if (low === high) return spec.zero ? [low, low + 1] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(low) || 1) / 2];
  const room = (high - low) * 0.06;
  return [spec.zero && low === 0 ? 0 : low - room, high + room];
}

/** Path data through the points; a null breaks the line, and a point with no neighbors becomes a dot. */
function linePath(xs, ys) {
  let data = "", open = false;
  ys.forEach((y, i) => {
    if (y === null) { open = false; return; }
    data += (open ? "L" : "M") + xs[i].toFixed(1) + " " + y.toFixed(1);
    if (!open && (i + 1 >= ys.length || ys[i + 1] === null)) data += "h0";
    open = true;
  });
  return data;
}

function areaPath(xs, tops, bottoms) {
  const there = xs.map((_, i) => i).filter((i) => tops[i] !== null);
  const up = there.map((i) => xs[i].toFixed(1) + " " + tops[i].toFixed(1));
  const back = there.reverse().map((i) => xs[i].toFixed(1) + " " + bottoms[i].toFixed(1));
  return "M" + up.concat(back).join("L") + "Z";
}

/** The place in any list of the value that is nearest. */
function nearestOf(values, wanted) {
  return values.reduce((best, value, i) => (Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? i : best), 0);
}

/** The place in a rising list whose value is nearest. */
function nearest(values, wanted) {
  let low = 0, high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle; else high = middle;
  }
  return wanted - values[low] <= values[high] - wanted ? low : high;
}

/** The drawn series of a chart: {name, color, dash, faint, at: places on the axis, values, floor, top}. The color says
 * which run it is of, and the dashes which quantity. A sparse one, such as an evaluation now and then, has no gaps. */
function seriesOf(spec, runs, axis) {
  const found = [], compared = runs.length > 1;
  const shown = spec.series.filter((s) => !(compared && s.faint));
  runs.forEach((run) => shown.forEach((s, i) => {
    const raw = column(run.metrics, s.key);
    if (!raw.some((v) => v !== null)) return;
    const name = !compared ? s.name : shown.length > 1 ? `${run.name}, ${s.name}` : run.name;
    const at = positions(run.metrics, axis), there = spec.sparse ? at.map((_, n) => n).filter((n) => raw[n] !== null) : null;
    found.push({ name, faint: s.faint, at: there ? there.map((n) => at[n]) : at,
      values: there ? there.map((n) => raw[n]) : s.smooth ? smoothed(raw) : raw,
      dash: DASHES[s.faint ? 0 : (i - (shown[0].faint ? 1 : 0)) % DASHES.length], color: spec.stacked ? s.fill || PARTS[i] : RUN_COLORS[run.number] });
  }));
  let floor = null;
  for (const s of found) {
    s.floor = floor || s.values.map(() => 0);
    s.top = spec.stacked ? s.values.map((v, i) => (v ?? 0) + s.floor[i]) : s.values;
    if (spec.stacked) floor = s.top;
  }
  return found;
}

/** What a series looks like, for the legend. */
function sample(series, area) {
  if (area) return el("i", { style: { background: series.color } });
  return svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, svg("path", { class: series.faint ? "faint" : "", d: "M0 4H22",
    style: { stroke: series.color, "stroke-dasharray": series.dash } }));
}

/** A number at the axis: 40K for 40,000. */
function tickText(value) {
  return Math.abs(value) < 1000 ? short(value) : value.toLocaleString("en", { notation: "compact" });
}

/** Returns {node, show(place or null)}, or null when no run has the metric. `point(place or null)` is called when the
 * pointer moves, with a place on the axis at which a series has a point. */
function chart(spec, runs, point) {
  const axis = axisOf(runs), series = seriesOf(runs.length > 1 ? { ...spec, stacked: false } : spec, runs, axis);
  if (!series.length) return null;
  const format = spec.format || short, width = spec.wide && innerWidth > 680 ? 740 : 360;
  const [low, high] = range(series.flatMap((s) => s.top), spec);
  const first = Math.min(...series.map((s) => s.at[0]));
  const end = Math.max(...series.map((s) => s.at[s.at.length - 1])), last = end > first ? end : first + 1;
  const x = (n) => BOX.left + ((n - first) / (last - first)) * (width - BOX.left - BOX.right);
  const y = (v) => (v === null ? null : BOX.height - BOX.bottom - ((v - low) / (high - low)) * (BOX.height - BOX.bottom - BOX.top));

  const plot = svg("svg", { viewBox: `0 0 ${width} ${BOX.height}`, role: "img", "aria-label": spec.title });
  for (const tick of ticks(low, high, 3)) {
    plot.append(svg("line", { class: "grid", x1: BOX.left, x2: width - BOX.right, y1: y(tick), y2: y(tick) }));
    const label = spec.format === percent ? short(Number((tick * 100).toPrecision(6))) + "%" : short(tick);
    plot.append(svg("text", { x: BOX.left - 6, y: y(tick) + 3.5, "text-anchor": "end" }, label));
  }
  for (const tick of ticks(first, last, spec.wide ? 9 : 5).filter((t) => axis === AXES.minutes || Number.isInteger(t))) {
    plot.append(svg("text", { x: x(tick), y: BOX.height - 6, "text-anchor": "middle" }, tickText(tick)));
  }
  for (const s of series) {
    const xs = s.at.map(x);
    plot.append(spec.stacked && runs.length === 1
      ? svg("path", { class: "area", d: areaPath(xs, s.top.map(y), s.floor.map(y)), style: { fill: s.color } })
      : svg("path", { class: s.faint ? "faint" : "", d: linePath(xs, s.top.map(y)), style: { stroke: s.color, "stroke-dasharray": s.dash } }));
    if (spec.sparse) plot.append(...xs.map((at, i) => svg("circle", { cx: at, cy: y(s.top[i]), r: 2.2, style: { fill: s.color } })));
  }
  const cross = svg("line", { class: "cross", y1: BOX.top, y2: BOX.height - BOX.bottom, visibility: "hidden" });
  const dots = series.map((s) => svg("circle", { r: 3, visibility: "hidden", style: { fill: s.color } }));
  plot.append(cross, ...dots);
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect(), share = ((event.clientX - box.left) / box.width * width - BOX.left) / (width - BOX.left - BOX.right);
    const wanted = Math.min(1, Math.max(0, share)) * (last - first) + first, near = series.map((s) => s.at[nearest(s.at, wanted)]);
    point(near[nearestOf(near, wanted)]);
  });
  plot.addEventListener("pointerleave", () => point(null));

  const numbers = series.map(() => el("b"));
  const keys = series.map((s, i) => el("span", { class: "key" }, sample(s, spec.stacked && runs.length === 1), s.name + " ", numbers[i]));
  const where = el("span", { class: "key" });

  function show(place) {
    const seen = place !== null && place >= first && place <= last;
    where.textContent = seen ? axis.say(place) : "";
    cross.setAttribute("visibility", seen ? "visible" : "hidden");
    if (seen) { cross.setAttribute("x1", x(place)); cross.setAttribute("x2", x(place)); }
    series.forEach((s, i) => {
      const at = seen ? nearest(s.at, place) : s.at.length - 1;
      // Runs seldom have a point at the very same number of steps or minutes: the one within half a distance counts.
      const close = seen && Math.abs(s.at[at] - place) <= (s.at[s.at.length - 1] - s.at[0]) / (2 * Math.max(1, s.at.length - 1));
      numbers[i].textContent = seen && !close ? "–" : format(s.values[at]);
      dots[i].setAttribute("visibility", close && s.values[at] !== null ? "visible" : "hidden");
      if (close && s.values[at] !== null) { dots[i].setAttribute("cx", x(s.at[at])); dots[i].setAttribute("cy", y(s.top[at])); }
    });
  }
  show(null);
  const head = el("figcaption", {}, el("span", { class: "title" }, spec.title, where), keys);
  return { node: el("figure", { class: "chart card" + (spec.wide ? " wide" : "") }, head, plot), show };
}

/** Charts of the specs that any of the runs has numbers for, pointing together; null when there are none. */
function chartGrid(specs, runs, linked = []) {
  const point = (place) => linked.forEach((c) => c.show(place));
  const made = specs.map((spec) => chart(spec, runs, point)).filter(Boolean);
  linked.push(...made);
  return made.length ? el("div", { class: "charts" }, made.map((c) => c.node)) : null;
}
