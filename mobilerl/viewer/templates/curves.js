// Charts of related metrics, in display order.

const MAIN_CURVES = [
  { title: "Success rate", format: percent, domain: [0, 1], wide: true, series: [
    { key: "rollout/success_rate", name: "iteration", faint: true, color: 0 },
    { key: "rollout/success_rate", name: "smoothed", smooth: true, color: 0 }] },
  { title: "Episode length (steps)", series: [{ key: "rollout/episode_len", name: "mean" }], zero: true },
  { title: "Staleness (versions)", zero: true, series: [
    { key: "staleness/mean", name: "mean" }, { key: "staleness/max", name: "max" }] },
  { title: "Replay size", series: [{ key: "replay/size", name: "trajectories" }], zero: true },
  { title: "Replay share of batch", format: percent, zero: true, series: [{ key: "replay/fraction", name: "share" }] },
  { title: "Curriculum (tasks)", zero: true, series: [
    { key: "curriculum/active", name: "active", color: 0 }, { key: "curriculum/cooling", name: "cooling", color: 1 },
    { key: "curriculum/removed", name: "removed", color: 3 }] },
  { title: "Reward", series: [{ key: "rollout/reward", name: "mean" }] },
];
const LEARNING_CURVES = [
  { title: "SFT loss", series: [{ key: "sft/loss", name: "loss" }], zero: true, wide: true },
  { title: "Loss", series: [{ key: "train/loss", name: "loss" }] },
  { title: "KL to reference", series: [{ key: "train/kl", name: "kl" }] },
  { title: "Gradient norm", series: [{ key: "train/grad_norm", name: "norm" }], zero: true },
  { title: "Clipped tokens", format: percent, series: [{ key: "train/clip_frac", name: "share" }], zero: true },
  { title: "Rollout vs trainer probability", zero: true, series: [
    { key: "train/rollout_prob_diff_max", name: "largest difference" }] },
  { title: "Invalid actions", format: percent, zero: true, series: [{ key: "rollout/invalid_rate", name: "share" }] },
  { title: "Groups solved / informative", format: percent, domain: [0, 1], series: [
    { key: "rollout/solved_groups", name: "solved by any" }, { key: "rollout/informative", name: "informative" }] },
];
const SPEED_CURVES = [
  { title: "Time per iteration (s)", stacked: true, zero: true, series: [
    { key: "time/rollout_s", name: "rollout" }, { key: "time/update_s", name: "update" },
    { key: "time/publish_s", name: "publish" }] },
  { title: "Throughput", zero: true, series: [{ key: "rollout/trajectories_per_min", name: "episodes/min" }] },
  { title: "Steps per second", zero: true, series: [{ key: "rollout/steps_per_s", name: "steps/s" }] },
  { title: "Hours so far", zero: true, series: [
    { key: "cost/device_hours", name: "devices" }, { key: "cost/device_busy_hours", name: "devices, busy" },
    { key: "cost/gpu_hours", name: "of GPUs", color: 3 }] },
  { title: "Judge tokens so far", zero: true, series: [
    { key: "cost/judge_prompt_tokens", name: "prompt" }, { key: "cost/judge_completion_tokens", name: "completion" }] },
];
const FLEET_CURVES = [
  { title: "Utilisation while collecting", format: percent, domain: [0, 1], series: [{ key: "rollout/env_utilization", name: "busy" }] },
  { title: "Episodes lost to device faults", zero: true, series: [
    { key: "rollout/infra_errors", name: "infra errors" }, { key: "rollout/retried", name: "retried" },
    { key: "rollout/lost_groups", name: "groups lost" }] },
  { title: "Tasks set aside so far", zero: true, series: [
    { key: "rollout/tasks_set_aside", name: "tasks" }, { key: "rollout/free_reward_tasks", name: "their reward is free" }] },
  { title: "Devices by state", zero: true, stacked: true, series: [
    { key: "fleet/leased", name: "leased" }, { key: "fleet/ready", name: "ready" },
    { key: "fleet/refreshing", name: "refreshing" }, { key: "fleet/starting", name: "starting" }] },
  { title: "Quarantined", zero: true, series: [{ key: "fleet/quarantined", name: "devices", color: 1 }] },
  { title: "Failures so far", zero: true, series: [
    { key: "fleet/failures", name: "failures", color: 1 }, { key: "fleet/replaced", name: "replaced", color: 3 },
    { key: "fleet/lease_timeouts", name: "leases timed out", color: 2 }] },
  { title: "Reset so far", zero: true, series: [{ key: "fleet/renewed", name: "devices" }] },
];

/** One chart for each remaining metric. */
function otherCurves(runs) {
  const drawn = [...MAIN_CURVES, ...LEARNING_CURVES, ...SPEED_CURVES, ...FLEET_CURVES].flatMap((c) => c.series.map((s) => s.key));
  const known = new Set(["iteration", "time_s", ...drawn]);
  const keys = new Set(runs.flatMap((run) => Object.keys(run.metrics)));
  return [...keys].filter((key) => !known.has(key)).sort().map((key) => ({ title: key, series: [{ key, name: "" }] }));
}

function folded(title, content, open = false) {
  return content && el("details", { class: "fold", open: open ? "" : null }, el("summary", {}, title), content);
}
