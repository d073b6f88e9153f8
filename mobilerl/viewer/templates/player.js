// One trajectory, step by step: the screen with the action drawn on it, and what the model read and wrote.

const COORD_MAX = 999;
const LABELS = { success: "success", finished: "finished, wrong", truncated: "out of steps", invalid: "unreadable", infra_error: "infra error" };

function actionText(action) {
  const rest = Object.entries(action).filter(([name]) => name !== "kind");
  return `${action.kind}(${rest.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")})`;
}

/** What an action that has no place on the screen says, as [label, text]; null for taps and swipes. */
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

/** SVG marks in pixels of the screen, so that circles stay round. */
function marks(action, width, height) {
  const unit = width / 100;
  const x = (v) => (v * width) / COORD_MAX, y = (v) => (v * height) / COORD_MAX;
  const ring = (r, extra) => ["halo", "ink"].map((kind) => svg("circle", {
    class: kind, cx: x(action.x), cy: y(action.y), r: r * unit, "stroke-width": (kind === "halo" ? 2.2 : 1.1) * unit, ...extra }));
  const dot = () => svg("circle", { class: "dot", cx: x(action.x), cy: y(action.y), r: 1.9 * unit, "stroke-width": 0.6 * unit });
  if (action.kind === "tap") return [...ring(5.5), dot()];
  if (action.kind === "long_press") return [...ring(5.5), ...ring(9, { "stroke-dasharray": `${3 * unit} ${3 * unit}` }), dot()];
  if (action.kind !== "swipe") return [];
  const [x1, y1, x2, y2] = [x(action.x), y(action.y), x(action.x2), y(action.y2)];
  const angle = Math.atan2(y2 - y1, x2 - x1), back = 4.5 * unit;
  const corner = (turn) => `${x2 - 1.6 * back * Math.cos(angle + turn)} ${y2 - 1.6 * back * Math.sin(angle + turn)}`;
  const end = { x: x2 - back * Math.cos(angle), y: y2 - back * Math.sin(angle) };
  return [
    ...["halo", "ink"].map((kind) => svg("line", { class: kind, x1, y1, x2: end.x, y2: end.y, "stroke-width": (kind === "halo" ? 3 : 1.7) * unit })),
    svg("path", { class: "head", d: `M${x2} ${y2}L${corner(0.45)}L${corner(-0.45)}Z` }),
    dot(),
  ];
}

function screenImage(step, missing) {
  if (!step.screen) return missing("No screenshot was taken at this step.");
  const image = el("img", { src: `../screens/${step.screen}.png`, alt: `Screen of ${step.app}`, loading: "lazy" });
  image.addEventListener("error", () => image.replaceWith(missing("The screenshot is not in screens/.")));
  return image;
}

function phone(step) {
  const width = step.width || 1, height = step.height || 1;
  const caption = captionOf(step.action);
  return el("div", { class: "phone", style: { "--ratio": String(width / height) } },
    screenImage(step, (text) => el("div", { class: "none" }, text)),
    svg("svg", { class: "overlay", viewBox: `0 0 ${width} ${height}` }, marks(step.action, width, height)),
    caption ? el("div", { class: "caption" }, el("b", {}, caption[0]), caption[1]) : null);
}

function timingBar(timings) {
  const phases = Object.entries(timings), total = phases.reduce((sum, [, s]) => sum + s, 0);
  if (!total) return el("p", { class: "muted" }, "not recorded");
  return el("div", {},
    el("div", { class: "split" }, phases.map(([, s], i) => el("span", { style: { flex: String(s), background: SERIES[i % 4] } }))),
    phases.map(([name, s], i) => el("span", { class: "key" },
      el("i", { style: { background: SERIES[i % 4] } }), name + " ", el("b", {}, s.toFixed(2) + " s"), " \u00a0 ")));
}

function stepDetail(step) {
  const part = (title, ...content) => [el("h4", {}, title), ...content];
  return el("div", { class: "detail" },
    part("Action", el("p", { class: "act" }, actionText(step.action))),
    part("Thought", el("p", { class: "text" }, step.thought || "–")),
    part("Raw reply", el("pre", { class: "text" }, step.reply)),
    part("Time", timingBar(step.timings)),
    part("Tokens", el("p", {}, `${step.prompt_tokens} in the prompt, ${step.images} ${step.images === 1 ? "screenshot" : "screenshots"}, ` +
      `${step.reply_tokens} written`), el("p", { class: "muted" }, `policy version ${step.version}` +
      (step.mean_logprob === null ? "" : `, mean log-probability ${step.mean_logprob.toFixed(3)}`))));
}

/** Shows `body` in `target`; `moved(step)` is called when another step is shown. Returns {move(by)}. */
function player(target, row, task, iteration, body, start, moved) {
  const last = body.steps.length - 1;
  const holder = el("div", { class: "stage" });
  const slider = el("input", { type: "range", min: 0, max: Math.max(last, 0), "aria-label": "Step", oninput: () => show(Number(slider.value)) });
  const back = el("button", { type: "button", onclick: () => move(-1), "aria-label": "Previous step" }, "←");
  const next = el("button", { type: "button", onclick: () => move(1), "aria-label": "Next step" }, "→");
  const counter = el("span", { class: "muted" });
  const film = body.steps.map((step, i) => el("button", { type: "button", onclick: () => show(i), title: actionText(step.action) },
    screenImage(step, () => el("span", {}, "no screen")), el("span", {}, `${i + 1} ${step.action.kind}`)));
  let at = 0;

  function show(index) {
    at = index;
    const step = body.steps[at];
    slider.value = at;
    back.disabled = at === 0;
    next.disabled = at === last;
    counter.textContent = `${at + 1} of ${last + 1}`;
    holder.replaceChildren(
      el("div", {}, phone(step), el("div", { class: "controls" }, back, slider, next, counter)), stepDetail(step));
    film.forEach((button, i) => button.setAttribute("aria-current", String(i === at)));
    // Only the strip scrolls: scrollIntoView would also move the page.
    const strip = film[at].parentElement;
    if (strip) strip.scrollLeft = film[at].offsetLeft - strip.offsetLeft - strip.clientWidth / 2 + 26;
    moved(at);
  }
  function move(by) {
    if (at + by >= 0 && at + by <= last) show(at + by);
  }

  const fact = (name, value) => el("span", {}, `${name} `, el("b", {}, value));
  target.replaceChildren(
    el("h3", {}, task.instruction),
    el("div", { class: "facts" }, el("span", { class: "pill " + row.outcome }, LABELS[row.outcome]),
      fact("reward", short(row.reward)), fact("steps", `${row.steps} of ${task.max_steps}`), fact("took", duration(body.wall_s)),
      fact("iteration", String(iteration.number)), fact("task", task.id), fact("device", body.device_id)),
    ...(body.error ? [el("p", { class: "error" }, body.error)] : []),
    ...(last < 0 ? [el("p", { class: "empty" }, "This episode ended before its first step.")]
      : [holder, el("div", { class: "film" }, film)]));
  if (last >= 0) show(Math.min(Math.max(start, 0), last));
  return { move };
}
