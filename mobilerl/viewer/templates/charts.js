// Small multiples over iterations. Pointing at one chart shows the same iteration in all of them.

const CHARTS = [
  { title: "Success rate", format: percent, domain: [0, 1], series: [
    { key: "rollout/success_rate", name: "iteration", faint: true, color: 0 },
    { key: "rollout/success_rate", name: "smoothed", smooth: true, color: 0 }] },
  { title: "Reward", series: [{ key: "rollout/reward", name: "mean" }] },
  { title: "Episode length", series: [{ key: "rollout/episode_len", name: "steps" }], zero: true },
  { title: "Loss", series: [{ key: "train/loss", name: "loss" }] },
  { title: "KL to reference", series: [{ key: "train/kl", name: "kl" }] },
  { title: "Gradient norm", series: [{ key: "train/grad_norm", name: "norm" }], zero: true },
  { title: "Clipped tokens", format: percent, series: [{ key: "train/clip_frac", name: "share" }], zero: true },
  { title: "Rollout against trainer probability", zero: true, series: [
    { key: "train/rollout_prob_diff_max", name: "largest difference" }] },
  { title: "Replay size", series: [{ key: "replay/size", name: "trajectories" }], zero: true },
  { title: "Replayed share of batch", format: percent, zero: true, series: [
    { key: "replay/fraction", name: "share" }] },
  { title: "Curriculum", zero: true, series: [
    { key: "curriculum/active", name: "active" }, { key: "curriculum/cooling", name: "cooling" },
    { key: "curriculum/removed", name: "removed" }] },
  { title: "Staleness", zero: true, series: [
    { key: "staleness/mean", name: "mean" }, { key: "staleness/max", name: "max" }] },
  { title: "Time per iteration (s)", stacked: true, zero: true, series: [
    { key: "time/rollout_s", name: "rollout" }, { key: "time/update_s", name: "update" },
    { key: "time/publish_s", name: "publish" }] },
  { title: "Throughput", zero: true, series: [{ key: "rollout/trajectories_per_min", name: "episodes/min" }] },
  { title: "Device utilization", format: percent, domain: [0, 1], series: [
    { key: "rollout/env_utilization", name: "busy" }] },
  { title: "Unreadable actions", format: percent, zero: true, series: [
    { key: "rollout/invalid_rate", name: "share" }] },
  { title: "Infra errors", zero: true, series: [{ key: "rollout/infra_errors", name: "episodes" }] },
];
const BOX = { width: 360, height: 150, left: 38, right: 8, top: 8, bottom: 20 };
const SMOOTHING = 0.8;

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

function column(rows, key) {
  return rows.map((row) => (typeof row[key] === "number" ? row[key] : null));
}

/** About `count` round numbers that cover [low, high]. */
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

function range(values, spec) {
  if (spec.domain) return spec.domain;
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (spec.zero) low = Math.min(0, low);
  if (low === high) return spec.zero ? [low, low + 1] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(low) || 1) / 2];
  const room = (high - low) * 0.06;
  return [spec.zero && low === 0 ? 0 : low - room, high + room];
}

/** Path data through the points; a null breaks the line, and a point with no neighbours becomes a dot. */
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

/** Returns {node, show(index or null)}; `point(index or null)` is called when the pointer moves. */
function chart(spec, rows, point) {
  const format = spec.format || short;
  const series = spec.series.map((s, i) => {
    const raw = column(rows, s.key);
    return { ...s, values: s.smooth ? smoothed(raw) : raw, color: SERIES[s.color ?? i] };
  }).filter((s) => s.values.some((v) => v !== null));
  let floor = rows.map(() => 0);
  for (const s of series) {
    s.floor = floor;
    s.top = spec.stacked ? s.values.map((v, i) => (v ?? 0) + floor[i]) : s.values;
    if (spec.stacked) floor = s.top;
  }
  const iterations = rows.map((row) => row.iteration);
  const [low, high] = range(series.flatMap((s) => s.top), spec);
  const first = iterations[0], last = Math.max(first + 1, iterations[iterations.length - 1]);
  const x = (n) => BOX.left + ((n - first) / (last - first)) * (BOX.width - BOX.left - BOX.right);
  const y = (v) => (v === null ? null : BOX.height - BOX.bottom - ((v - low) / (high - low)) * (BOX.height - BOX.bottom - BOX.top));
  const xs = iterations.map(x);

  const plot = svg("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": spec.title });
  for (const tick of ticks(low, high, 3)) {
    plot.append(svg("line", { class: "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: y(tick), y2: y(tick) }));
    const label = spec.format === percent ? short(Number((tick * 100).toPrecision(6))) + "%" : short(tick);
    plot.append(svg("text", { x: BOX.left - 6, y: y(tick) + 3.5, "text-anchor": "end" }, label));
  }
  for (const tick of ticks(first, last, 5).filter(Number.isInteger)) {
    plot.append(svg("text", { x: x(tick), y: BOX.height - 6, "text-anchor": "middle" }, String(tick)));
  }
  for (const s of series) {
    plot.append(spec.stacked
      ? svg("path", { class: "area", d: areaPath(xs, s.top.map(y), s.floor.map(y)), style: { fill: s.color } })
      : svg("path", { class: s.faint ? "faint" : "", d: linePath(xs, s.top.map(y)), style: { stroke: s.color } }));
  }
  const cross = svg("line", { class: "cross", y1: BOX.top, y2: BOX.height - BOX.bottom, visibility: "hidden" });
  const dots = series.map((s) => svg("circle", { r: 3, visibility: "hidden", style: { fill: s.color } }));
  plot.append(cross, ...dots);
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * BOX.width;
    point(xs.reduce((best, value, i) => (Math.abs(value - at) < Math.abs(xs[best] - at) ? i : best), 0));
  });
  plot.addEventListener("pointerleave", () => point(null));

  const numbers = series.map(() => el("b"));
  const keys = series.map((s, i) => el("span", { class: "key" },
    el("i", { style: { background: s.color, opacity: s.faint ? "0.4" : "1" } }), s.name + " ", numbers[i]));
  const where = el("span", { class: "key" });

  function show(index) {
    const at = index ?? rows.length - 1;
    where.textContent = index === null ? "" : "at " + iterations[at];
    cross.setAttribute("visibility", index === null ? "hidden" : "visible");
    cross.setAttribute("x1", xs[at]);
    cross.setAttribute("x2", xs[at]);
    series.forEach((s, i) => {
      numbers[i].textContent = format(s.values[at]);
      const seen = index !== null && s.values[at] !== null;
      dots[i].setAttribute("visibility", seen ? "visible" : "hidden");
      if (seen) { dots[i].setAttribute("cx", xs[at]); dots[i].setAttribute("cy", y(s.top[at])); }
    });
  }
  show(null);
  const head = el("figcaption", {}, el("span", { class: "title" }, spec.title, where), keys);
  return { node: el("figure", { class: "chart card" }, head, plot), show };
}

function drawCharts(section, rows) {
  const grid = section.querySelector(".charts");
  if (!rows.length) {
    grid.replaceWith(el("p", { class: "empty" }, "No iteration is finished yet: metrics.jsonl has no lines."));
    return;
  }
  const all = [];
  const point = (index) => all.forEach((c) => c.show(index));
  const has = (key) => rows.some((row) => typeof row[key] === "number");
  const add = (spec, target) => {
    if (!spec.series.some((s) => has(s.key))) return;
    const made = chart(spec, rows, point);
    all.push(made);
    target.append(made.node);
  };
  CHARTS.forEach((spec) => add(spec, grid));
  const known = new Set(["iteration", ...CHARTS.flatMap((c) => c.series.map((s) => s.key))]);
  const others = [...new Set(rows.flatMap(Object.keys))].filter((key) => !known.has(key) && has(key)).sort();
  if (others.length) {
    const more = el("div", { class: "charts" });
    others.forEach((key) => add({ title: key, series: [{ key, name: "" }] }, more));
    section.append(el("details", { class: "more" }, el("summary", {}, `${others.length} more metrics`), more));
  }
}
