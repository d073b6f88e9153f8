// A strip of coloured fields: a canvas with one pixel per column, stretched by CSS.

function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { none: read("--sunken"), idle: read("--strip-idle"), busy: read("--s0"), good: read("--good"), bad: read("--bad"),
    warn: read("--s1"), off: read("--s3"), line: read("--line"), ink: read("--ink") };
}

/** `paint(context, columns, colors)` draws on a canvas `columns` px wide and `height` px high. */
function strip(columns, height, paint, label) {
  const canvas = el("canvas", { class: "strip", width: Math.max(columns, 1), height, role: "img", "aria-label": label || null });
  paint(canvas.getContext("2d"), columns, palette());
  return canvas;
}

/** Success of one task by iteration: red to green, empty where it was not sampled. */
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
    const high = Math.max(1, Math.round((10 * won) / tried));
    context.globalAlpha = 0.28;
    context.fillStyle = won ? colors.good : colors.bad;
    context.fillRect(i, 0, 1, 10);
    context.globalAlpha = 1;
    context.fillRect(i, won ? 10 - high : 8, 1, won ? high : 2);
  }), "success by iteration");
}

/** A device over time: utilisation as a blue bar, other states as a full field, faults at the top. */
function deviceStrip(device, columns) {
  return strip(columns, 20, (context, _, colors) => {
    const other = { f: colors.good, s: colors.warn, q: colors.bad };
    for (let i = 0; i < columns; i++) {
      const state = device.states[i];
      if (state === "-") continue;
      context.globalAlpha = 1;
      context.fillStyle = colors.idle;
      context.fillRect(i, 0, 1, 20);
      if (other[state]) {
        context.globalAlpha = 0.75;
        context.fillStyle = other[state];
        context.fillRect(i, 0, 1, 20);
      }
      context.globalAlpha = 1;
      context.fillStyle = colors.busy;
      const high = Math.round(device.busy_columns[i] / 5);
      context.fillRect(i, 20 - high, 1, high);
    }
    context.fillStyle = colors.bad;
    for (const [i] of device.fault_columns) context.fillRect(i, 0, 1, 5);
  }, "state over time");
}
