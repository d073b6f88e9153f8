// Charts of related metrics, in display order.

const MOST_APPS = 24;
const REPLAY_CURVES = [
  { title: "Replay size", series: [{ key: "replay/size", name: "trajectories" }], zero: true },
  { title: "Replay share of batch", format: percent, zero: true, series: [{ key: "replay/fraction", name: "share" }] },
];
/** The success rates of the evaluations during training, a line for each held-out part. */
function heldOutCurve(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))].filter((key) => key.startsWith("eval/"));
  return { title: "Held-out success rate", format: percent, domain: [0, 1], wide: true, sparse: true,
    series: keys.map((key) => ({ key, name: key === "eval/success_rate" ? "all tasks" : key.slice(5) })) };
}

const MAIN_CURVES = [
  { title: "Success rate of training episodes", format: percent, domain: [0, 1], wide: true, series: [
    { key: "rollout/success_rate", name: "iteration", faint: true },
    { key: "rollout/success_rate", name: "smoothed", smooth: true }] },
  { title: "-log p of sampled tokens", series: [{ key: "train/neg_logp", name: "mean" }], zero: true },
  { title: "Loss", series: [{ key: "train/loss", name: "loss" }] },
  { title: "Reward", series: [{ key: "rollout/reward", name: "mean" }] },
  { title: "Episode length (steps)", series: [{ key: "rollout/episode_len", name: "mean" }], zero: true },
];
const LEARNING_CURVES = [
  { title: "KL to reference", series: [{ key: "train/kl", name: "kl" }] },
  { title: "Gradient norm", series: [{ key: "train/grad_norm", name: "norm" }], zero: true },
  { title: "Clipped tokens", format: percent, series: [{ key: "train/clip_frac", name: "share" }], zero: true },
  { title: "Rollout vs trainer probability", zero: true, series: [
    { key: "train/rollout_prob_diff_max", name: "largest difference" }] },
  { title: "Invalid actions", format: percent, zero: true, series: [{ key: "rollout/invalid_rate", name: "share" }] },
  { title: "Groups solved / informative", format: percent, domain: [0, 1], series: [
    { key: "rollout/solved_groups", name: "solved by any" }, { key: "rollout/informative", name: "informative" }] },
  { title: "Staleness (versions)", zero: true, series: [
    { key: "staleness/mean", name: "mean" }, { key: "staleness/max", name: "max" }] },
  ...REPLAY_CURVES,
  { title: "Curriculum (tasks)", zero: true, series: [
    { key: "curriculum/active", name: "active" }, { key: "curriculum/cooling", name: "cooling" },
    { key: "curriculum/removed", name: "removed" }] },
];
const SPEED_CURVES = [
  { title: "Time per iteration (s)", stacked: true, zero: true, series: [
    { key: "time/rollout_s", name: "rollout" }, { key: "time/update_s", name: "update" },
    { key: "time/publish_s", name: "publish" }] },
  { title: "Throughput", zero: true, series: [{ key: "rollout/trajectories_per_min", name: "episodes/min" }] },
  { title: "Steps per second", zero: true, series: [{ key: "rollout/steps_per_s", name: "steps/s" }] },
  { title: "Hours so far", zero: true, series: [
    { key: "cost/device_hours", name: "devices" }, { key: "cost/device_busy_hours", name: "devices, busy" },
    { key: "cost/gpu_hours", name: "of GPUs" }] },
  { title: "Judge tokens so far", zero: true, series: [
    { key: "cost/judge_prompt_tokens", name: "prompt" }, { key: "cost/judge_completion_tokens", name: "completion" }] },
];
const FLEET_CURVES = [
  { title: "Utilization while collecting", format: percent, domain: [0, 1], series: [{ key: "rollout/env_utilization", name: "busy" }] },
  { title: "Episodes lost to device faults", zero: true, series: [
    { key: "rollout/infra_errors", name: "infra errors" }, { key: "rollout/retried", name: "retried" },
    { key: "rollout/lost_groups", name: "groups lost" }] },
  { title: "Tasks set aside so far", zero: true, series: [
    { key: "rollout/tasks_set_aside", name: "tasks" }, { key: "rollout/free_reward_tasks", name: "their reward is free" }] },
  { title: "Devices by state", zero: true, stacked: true, series: [
    { key: "fleet/leased", name: "busy", fill: "var(--st-leased)" }, { key: "fleet/ready", name: "ready", fill: "var(--st-ready)" },
    { key: "fleet/refreshing", name: "refreshing", fill: "var(--st-refreshing)" },
    { key: "fleet/starting", name: "starting", fill: "var(--st-starting)" }] },
  { title: "Quarantined", zero: true, series: [{ key: "fleet/quarantined", name: "devices" }] },
  { title: "Failures so far", zero: true, series: [
    { key: "fleet/failures", name: "failures" }, { key: "fleet/replaced", name: "replaced" },
    { key: "fleet/lease_timeouts", name: "leases timed out" }] },
  { title: "Reset so far", zero: true, series: [{ key: "fleet/renewed", name: "devices" }] },
];

/** The loss of each SFT stage by optimizer step; null without any. */
function sftCharts(runs) {
  const stages = [...new Set(runs.flatMap((run) => run.metrics.stage || []))].filter(Boolean);
  const charts = stages.map((stage) => chart({ title: `SFT loss, ${stage}`, zero: true, series: [
    { key: "sft/loss", name: "batch", faint: true }, { key: "sft/loss", name: "smoothed", smooth: true }] },
  runs.map((run) => ({ ...run, metrics: stageOf(run.metrics, stage) })), () => {})).filter(Boolean);
  return charts.length ? el("div", { class: "charts" }, charts.map((c) => c.node)) : null;
}

/** The rows of a stage, with its steps counted from 1. */
function stageOf(metrics, stage) {
  const rows = (metrics.stage || []).flatMap((name, i) => (name === stage ? [i] : []));
  const before = metrics.iteration[rows[0] - 1] || 0;
  return { iteration: rows.map((i) => metrics.iteration[i] - before), "sft/loss": rows.map((i) => metrics["sft/loss"][i]) };
}

/** The columns that axes read, at the iterations with counts by app. */
function placesOf(run) {
  const iterations = run.apps.iteration || [], rows = iterations.map((n) => (run.metrics.iteration || []).indexOf(n));
  const columns = Object.values(AXES).map(({ key }) => [key, rows.map((row) => (run.metrics[key] || [])[row] ?? null)]);
  return { ...Object.fromEntries(columns), iteration: iterations };
}

/** Success by app, those with the most episodes first; null if no run recorded it. */
function appCharts(runs) {
  const rates = runs.map((run) => ({ ...run, metrics: { ...placesOf(run), ...run.apps.apps } }));
  const seen = {};
  for (const run of runs) for (const [app, values] of Object.entries(run.apps.apps || {})) {
    seen[app] = (seen[app] || 0) + values.filter((v) => v !== null).length;
  }
  const apps = Object.keys(seen).sort((a, b) => seen[b] - seen[a] || a.localeCompare(b));
  const charts = chartGrid(apps.slice(0, MOST_APPS).map((app) => ({ title: app || "no app", format: percent, domain: [0, 1],
    series: [{ key: app, name: "iteration", faint: true }, { key: app, name: "smoothed", smooth: true }] })), rates);
  if (!charts || apps.length <= MOST_APPS) return charts;
  return el("div", { class: "apps" }, el("p", { class: "muted" }, `The ${MOST_APPS} of ${apps.length} apps with episodes in the most iterations.`), charts);
}

/** One chart for each remaining metric. */
function otherCurves(runs) {
  const drawn = [...MAIN_CURVES, ...LEARNING_CURVES, ...SPEED_CURVES, ...FLEET_CURVES].flatMap((c) => c.series.map((s) => s.key));
  const known = new Set(["iteration", "time_s", "rollout/env_steps", "stage", "sft/loss", ...heldOutCurve(runs).series.map((s) => s.key), ...drawn]);
  const keys = new Set(runs.flatMap((run) => Object.keys(run.metrics)));
  return [...keys].filter((key) => !known.has(key)).sort().map((key) => ({ title: key, series: [{ key, name: "" }] }));
}

function folded(title, content, open = false) {
  return content && el("details", { class: "fold", open: open ? "" : null }, el("summary", {}, title), content);
}
