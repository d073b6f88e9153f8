// A strip of colored fields: a canvas with one pixel per column, stretched by CSS.

function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { success: read("--o-success"), failed: read("--soft"), busy: read("--st-leased"), ready: read("--st-ready"),
    refreshing: read("--st-refreshing"), starting: read("--st-starting"), quarantined: read("--st-quarantined") };
}

/** `paint(context, columns, colors)` draws on a canvas `columns` px wide and `height` px high. */
function strip(columns, height, paint, label) {
  const canvas = el("canvas", { class: "strip", width: Math.max(columns, 1), height, role: "img", "aria-label": label || null });
  paint(canvas.getContext("2d"), columns, palette());
  return canvas;
}

/** Success of one task by iteration as a bar of full height, empty where it was not sampled. */
function successStrip(played, first, last) {
  const columns = Math.min(160, last - first + 1), wide = (last - first + 1) / columns;
  const counts = Array.from({ length: columns }, () => [0, 0]);
  for (const [iteration, tried, won] of played) {
    const count = counts[Math.min(columns - 1, Math.floor((iteration - first) / wide))];
    count[0] += tried;
    count[1] += won;
  }
  return strip(columns, 10, (context, _, colors) => counts.forEach(([tried, won], i) => {
    if (!tried) return;
    const high = won ? Math.max(1, Math.round((10 * won) / tried)) : 0;
    context.fillStyle = colors.failed;
    context.fillRect(i, 0, 1, 10);
    context.fillStyle = colors.success;
    context.fillRect(i, 10 - high, 1, high);
  }), "success by iteration");
}

/** A device over time: utilization as a bar, other states as a full field, faults at the top. */
function deviceStrip(device, columns) {
  return strip(columns, 20, (context, _, colors) => {
    const full = { f: colors.refreshing, s: colors.starting, q: colors.quarantined };
    for (let i = 0; i < columns; i++) {
      const state = device.states[i];
      if (state === "-") continue;
      context.fillStyle = full[state] || colors.ready;
      context.fillRect(i, 0, 1, 20);
      context.fillStyle = colors.busy;
      const high = Math.round(device.busy_columns[i] / 5);
      context.fillRect(i, 20 - high, 1, high);
    }
    context.fillStyle = colors.quarantined;
    for (const [i] of device.fault_columns) context.fillRect(i, 0, 1, 5);
  }, "state over time");
}
