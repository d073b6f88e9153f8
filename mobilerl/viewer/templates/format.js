// Numbers, times, outcomes and actions as short text.

const COORD_MAX = 999;
const LABELS = { success: "success", finished: "finished, wrong", truncated: "out of steps", invalid: "unreadable", infra_error: "infra error" };
const STATES = ["active", "solved", "cooling", "removed", "set_aside", "unknown"];

/** A number with a few digits: 0.00312, 4.2, 1200, 1.2e-7. */
function short(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size < 0.0001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function percent(value) {
  return value === null || value === undefined ? "–" : (100 * value).toFixed(1) + "%";
}

/** A signed number with a true minus: +1.25, −0.40. */
function signed(value, digits = 2) {
  return (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(digits);
}

function points(value) {
  return signed(100 * value, 1);
}

function duration(seconds) {
  if (seconds < 90) return short(Number(seconds.toFixed(1))) + " s";
  if (seconds < 5400) return (seconds / 60).toFixed(1) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}

/** Hours as a number: 0.012, 3.2, 1,234.5. */
function hours(value) {
  return value < 1 ? short(Number(value.toPrecision(2))) : value.toLocaleString("en", { maximumFractionDigits: 1 });
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

function mean(values) {
  return values.length ? values.reduce((sum, v) => sum + v, 0) / values.length : null;
}

/** [lowest, highest] of any number of values (Math.min(...values) throws for some 100,000); null when there are none. */
function extent(values) {
  if (!values.length) return null;
  let low = values[0], high = values[0];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

/** A word with a colored square before it, or with a plain sign for a state. */
function pill(kind, text) {
  return el("span", { class: "pill " + kind }, el("i", { class: "sign" }), text);
}

function statePill(state) {
  return pill("state " + state, state.replace("_", " "));
}

function outcomeLegend() {
  return el("div", { class: "legend" }, Object.keys(LABELS).map(outcomePill));
}

function outcomePill(outcome) {
  return pill(outcome, LABELS[outcome] || outcome);
}

function actionText(action) {
  const rest = Object.entries(action).filter(([name]) => name !== "kind");
  return `${action.kind}(${rest.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")})`;
}

/** [label, text] of an action without a position on the screen; null for taps and swipes. */
function captionOf(action) {
  switch (action.kind) {
    case "type": return ["type", action.text];
    case "launch": return ["open", action.app];
    case "wait": return ["wait", `${action.seconds} s`];
    case "finish": return ["finish", action.message];
    case "invalid": return ["invalid", action.reason];
    case "tap": case "long_press": case "swipe": return null;
    default: return [action.kind, ""];
  }
}

/** The action in a few words, for a strip of steps: `tap Save`, `type "milk"`. */
function actionWords(step) {
  const caption = captionOf(step.action);
  if (caption) return caption[1] ? `${caption[0]} ${caption[1]}` : caption[0];
  const name = step.action.kind.replace("_", " ");
  return step.element && step.element.text ? `${name} ${step.element.text}` : name;
}

function advantageText(value) {
  return value === null || value === undefined ? null : el("b", {}, signed(value));
}
