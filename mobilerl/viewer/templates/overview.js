// The first view: key figures, curves and evaluations.

function tile(label, value, note, link) {
  return el(link ? "a" : "div", { class: "tile card", href: link || null }, el("div", { class: "label" }, label),
    el("div", { class: "value" }, value), el("div", { class: "sub" }, note || "\u00a0"));
}

function tiles(run) {
  const metrics = run.metrics, made = heldOutTiles(metrics);
  const iterations = metrics.iteration || [];
  if (iterations.length) {
    const seconds = column(metrics, "time_s").filter((v) => v !== null);
    made.push(tile("Iteration", String(iterations[iterations.length - 1]),
      seconds.length ? `in ${duration(seconds[seconds.length - 1])}` : `${iterations.length} recorded`));
    const rates = smoothed(column(metrics, "rollout/success_rate")).filter((v) => v !== null);
    if (rates.length) {
      made.push(tile("Success, smoothed", percent(rates[rates.length - 1]), `from ${percent(rates[0])}, best ${percent(extent(rates)[1])}`));
    }
  }
  for (const d of DATA.pairs.within.filter((d) => !d.reason)) {
    made.push(tile(`Evaluation ${d.suite}`, `${percent(d.rates[0])} → ${percent(d.rates[1])}`, `${points(d.difference)} points, paired`, "#evaluations"));
  }
  const states = run.tasks, total = Object.values(states).reduce((sum, n) => sum + n, 0);
  if (total) {
    const said = STATES.filter((s) => states[s] && s !== "unknown").map((s) => `${states[s]} ${s}`);
    made.push(tile("Tasks", String(total), said.join(", ") || "states not recorded", "#tasks"));
  }
  if (run.devices) {
    const busy = column(metrics, "rollout/env_utilization").filter((v) => v !== null);
    made.push(tile("Devices", String(run.devices), busy.length ? `${percent(busy[busy.length - 1])} busy collecting` : "", "#fleet"));
  }
  if (run.replay) made.push(tile("Replay buffer", String(run.replay.size), `episodes, after iteration ${run.replay.iteration}`, "#replay"));
  const cost = costTile(metrics);
  if (cost) made.push(cost);
  if (run.trajectories) made.push(tile("Trajectories", run.trajectories.toLocaleString("en"), `saved in ${plural(run.sources, "file")}`, "#trajectories"));
  return made.length ? el("div", { class: "tiles" }, made) : null;
}

/** The last held-out success rate of each part. */
function heldOutTiles(metrics) {
  return heldOutCurve([{ metrics }]).series.map(({ key, name }) => [name, column(metrics, key).filter((v) => v !== null)])
    .filter(([, rates]) => rates.length).map(([name, rates]) => tile(`Held-out, ${name}`, percent(rates[rates.length - 1]),
      rates.length > 1 ? `from ${percent(rates[0])}, best ${percent(extent(rates)[1])}` : "one evaluation"));
}

/** The cumulative cost of the run; null if it was not recorded. */
function costTile(metrics) {
  const last = (name) => column(metrics, "cost/" + name).findLast((v) => v !== null);
  const devices = last("device_hours"), gpus = last("gpu_hours");
  if (devices === undefined) return null;
  const prompt = last("judge_prompt_tokens"), completion = last("judge_completion_tokens");
  const notes = [`${hours(last("device_busy_hours"))} busy`];
  if (gpus) notes.push(`${hours(gpus)} GPU-hours`);
  if (prompt !== undefined) notes.push(`${(prompt + completion).toLocaleString("en")} judge tokens`);
  return tile("Device-hours", hours(devices), notes.join(", "));
}

function outcomeBar(run) {
  const kinds = Object.keys(LABELS).filter((kind) => run.outcomes[kind]);
  if (!kinds.length) return null;
  return el("div", { class: "outcomes card" },
    el("div", { class: "split" }, kinds.map((kind) => el("span", { class: kind, style: { flex: String(run.outcomes[kind]) } }))),
    el("div", { class: "keys" }, el("span", { class: "title" }, "Outcomes of the saved episodes"),
      kinds.map((kind) => el("a", { class: "key " + kind, href: `#trajectories?outcome=${kind}` }, el("i", { class: "sign" }), LABELS[kind] + " ",
        el("b", {}, run.outcomes[kind].toLocaleString("en"))))));
}

const overviewView = {
  title: "Overview",
  draw(target) {
    const run = RUNS[0], linked = [], runs = [run];
    const main = chartGrid([heldOutCurve(runs), ...MAIN_CURVES], runs, linked);
    const evaluations = run.evaluations.length ? [el("h2", {}, "Evaluations"), evaluationSummary(run)] : null;
    put(target, aboutCard(run), tiles(run), sftCharts(runs), main && axisPicker(runs),
      main || (run.metrics.iteration || run.evaluations.length ? null : empty("No iterations yet: metrics.jsonl will be shown here.")),
      outcomeBar(run), evaluations,
      folded("Success by app", appCharts(runs), true),
      folded("Learning", chartGrid(LEARNING_CURVES, runs, linked), true),
      folded("Speed and devices", chartGrid([...SPEED_CURVES, ...FLEET_CURVES], runs, linked), !main),
      folded("More metrics", chartGrid(otherCurves(runs), runs, linked), !main));
  },
  enter: (rest, params) => noteAxis(params),
};
