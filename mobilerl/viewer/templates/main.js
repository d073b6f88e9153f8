function drawTiles(target) {
  const rows = DATA.metrics;
  const tile = (label, value, note) => el("div", { class: "tile card" }, el("div", { class: "label" }, label),
    el("div", { class: "value" }, value), el("div", { class: "note" }, note || "\u00a0"));
  if (rows.length) {
    const last = rows[rows.length - 1];
    const rates = smoothed(column(rows, "rollout/success_rate")).filter((v) => v !== null);
    const speed = column(rows, "rollout/trajectories_per_min").filter((v) => v !== null);
    target.append(tile("Iteration", String(last.iteration), `${rows.length} recorded`));
    if (rates.length) {
      target.append(tile("Success rate, smoothed", percent(rates[rates.length - 1]), `from ${percent(rates[0])} · best ${percent(Math.max(...rates))}`));
    }
    if (speed.length) target.append(tile("Episodes per minute", short(speed[speed.length - 1]), "last iteration"));
  }
  for (const d of DATA.differences.filter((d) => !d.reason)) {
    const before = DATA.evaluations.find((e) => e.name === d.before), after = DATA.evaluations.find((e) => e.name === d.after);
    target.append(tile(`Evaluation: ${d.suite}`, `${percent(before.success_rate)} → ${percent(after.success_rate)}`, `${d.before} → ${d.after}`));
  }
  const saved = DATA.iterations.reduce((sum, it) => sum + it.total, 0);
  if (saved) target.append(tile("Saved trajectories", String(saved), `of ${DATA.iterations.length} iterations`));
}

drawTiles(byId("tiles"));
drawCharts(byId("curves"), DATA.metrics);
drawEvaluations(byId("evaluations"));
drawTrajectories(byId("trajectories"));
