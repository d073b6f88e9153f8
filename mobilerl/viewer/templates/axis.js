// What the x axis of the curves counts, the same in all views.

const AXES = {
  iterations: { label: "Iterations", key: "iteration", say: (x) => `iteration ${x}`, scale: 1 },
  steps: { label: "Steps", key: "rollout/env_steps", say: (x) => `${x.toLocaleString("en")} steps`, scale: 1 },
  minutes: { label: "Minutes", key: "time_s", say: (x) => `${short(Number(x.toFixed(1)))} min`, scale: 1 / 60 },
};
let chosenAxis = "iterations";

/** Whether all of the runs that have metrics can be drawn over an axis. */
function haveAxis(runs, { key }) {
  const drawn = runs.filter((run) => run.metrics.iteration);
  return drawn.length > 0 && drawn.every((run) => column(run.metrics, key).some((v) => v !== null));
}

/** The chosen axis if the runs have it, else iterations. */
function axisOf(runs) {
  return haveAxis(runs, AXES[chosenAxis]) ? AXES[chosenAxis] : AXES.iterations;
}

/** Where the rows of a run's metrics stand on an axis; one without a number, as before the first step, stands where the last one did. */
function positions(metrics, axis) {
  let last = 0;
  return column(metrics, axis.key).map((value) => { if (value !== null) last = value * axis.scale; return last; });
}

/** Buttons that choose the axis, of those that the runs have; null where there is no choice. */
function axisPicker(runs) {
  const known = Object.entries(AXES).filter(([, axis]) => haveAxis(runs, axis));
  if (known.length < 2) return null;
  const current = axisOf(runs);
  return el("div", { class: "segments", role: "group", "aria-label": "x axis" }, known.map(([name, axis]) => el("button", {
    type: "button", "aria-pressed": String(axis === current), onclick: () => { chosenAxis = name; noteAxis(); redrawViews(); } }, axis.label)));
}

/** Puts the axis into the address of a view with curves, and reads it from there. */
function noteAxis(params) {
  const wanted = params && params.get("x");
  if (wanted && Object.hasOwn(AXES, wanted) && wanted !== chosenAxis) {
    chosenAxis = wanted;
    return redrawViews();
  }
  const query = chosenAxis === "iterations" ? "" : `?x=${chosenAxis}`;
  return history.replaceState(null, "", `#${currentName}${query}`);
}
