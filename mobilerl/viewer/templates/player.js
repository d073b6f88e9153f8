// One trajectory, step by step: the screen with the action drawn on it, and the model's input and output.

function timingBar(timings) {
  const phases = Object.entries(timings), total = phases.reduce((sum, [, s]) => sum + s, 0);
  if (!total) return el("p", { class: "muted" }, "not recorded");
  return el("div", {},
    el("div", { class: "split" }, phases.map(([, s], i) => el("span", { style: { flex: String(s), background: PARTS[i % 4] } }))),
    el("div", { class: "keys" }, phases.map(([name, s], i) => el("span", { class: "key" },
      el("i", { style: { background: PARTS[i % 4] } }), name + " ", el("b", {}, s.toFixed(2) + " s")))));
}

/** The log-probability of each token as a bar that hangs from zero: the longer, the less likely. */
function logprobBars(values) {
  const lowest = Math.min(-1, ...values), wide = Math.max(3, Math.min(9, 420 / values.length));
  return svg("svg", { class: "bars", viewBox: `0 0 ${values.length * wide} 30`, width: values.length * wide, height: 30, role: "img",
    "aria-label": "log-probability of each token, dark below a probability of 20%" }, values.map((v, i) => svg("rect", { x: i * wide, y: 0, width: wide - 1,
    height: 1.5 + (28 * v) / lowest, class: v < Math.log(0.2) ? "unlikely" : "" }, svg("title", {}, `token ${i + 1}: ${v}`))));
}

function logprobText(step) {
  if (step.logprob === null) return el("p", { class: "muted" }, "not recorded");
  const low = Math.min(...step.logprobs);
  return el("div", {}, el("p", {}, el("b", {}, step.logprob.toFixed(3)), el("span", { class: "muted" },
    ` in all, ${(step.logprob / step.response_tokens).toFixed(3)} per token, lowest ${low.toFixed(3)}; dark: a token with a probability below 20%`)), logprobBars(step.logprobs));
}

function stepDetail(step, given) {
  const part = (title, ...content) => [el("h4", {}, title), ...content];
  return el("div", { class: "detail" },
    part("Action", el("p", { class: "act" }, actionText(step.action)),
      step.note ? el("p", { class: "error" }, `not done: ${step.note}`) : null),
    part(step.action.kind === "type" ? "Field" : "Element", elementText(step.element)),
    part("Thought", el("p", { class: "text" }, step.thought || "–")),
    el("div", { class: "pairup" },
      el("div", {}, part("Advantage", el("p", {}, advantageText(step.advantage) || el("span", { class: "muted" }, "not recorded")))),
      el("div", {}, part("Log-probability", logprobText(step)))),
    part("Raw response", el("pre", { class: "text" }, step.response)),
    part("Time", timingBar(step.timings)),
    part("Tokens", el("p", {}, `${step.prompt_tokens} in the prompt, ${plural(step.images, "screenshot")}, ` +
      `${step.response_tokens} written`, el("span", { class: "muted" }, ` by policy version ${step.version}`))), given);
}

function stepTable(body, show) {
  const rows = body.steps.map((step, i) => el("tr", { class: "link", onclick: () => show(i) },
    el("td", { class: "num" }, String(i + 1)), el("td", { class: "cut" }, actionWords(step)), el("td", { class: "cut muted" }, step.thought),
    el("td", { class: "num" }, step.logprob === null ? "–" : step.logprob.toFixed(2)),
    el("td", { class: "num" }, advantageText(step.advantage) || "–"),
    el("td", { class: "num" }, Object.values(step.timings).reduce((sum, s) => sum + s, 0).toFixed(2))));
  return { rows, node: el("div", { class: "scroll" }, el("table", { class: "steps" }, el("thead", {}, el("tr", {},
    ["", "Action", "Thought", "Log-prob.", "Advantage", "Seconds"].map((t, i) => el("th", { class: i === 0 || i > 2 ? "num" : "" }, t)))),
  el("tbody", {}, rows))) };
}

/** Shows `body` in `target`; `moved(step)` is called when another step is shown. Returns {move(by), toggle()}. */
function player(target, row, body, start, moved) {
  const last = body.steps.length - 1, task = row.task;
  const holder = el("div", { class: "stage" });
  const slider = el("input", { type: "range", min: 0, max: Math.max(last, 0), "aria-label": "Step", oninput: () => show(Number(slider.value)) });
  const back = el("button", { type: "button", onclick: () => move(-1), "aria-label": "Previous step" }, "←");
  const next = el("button", { type: "button", onclick: () => move(1), "aria-label": "Next step" }, "→");
  const counter = el("span", { class: "muted" });
  const film = body.steps.map((step, i) => el("button", { type: "button", onclick: () => show(i), title: actionText(step.action) },
    screenImage(row, step, () => el("span", {}, "no screen")), el("span", {}, `${i + 1} ${actionWords(step)}`)));
  const table = stepTable(body, (i) => show(i));
  const all = el("details", { class: "allsteps" }, el("summary", {}, "All steps as a table"), table.node);
  const given = givenPanel(row);
  let at = 0;

  function show(index) {
    at = index;
    const step = body.steps[at];
    slider.value = at;
    back.disabled = at === 0;
    next.disabled = at === last;
    counter.textContent = `${at + 1} of ${last + 1}`;
    const screen = phone(row, step);
    put(holder, el("div", {}, screen, el("div", { class: "controls" }, back, slider, next, counter),
      el("p", { class: "muted small" }, "pink: the action; dashed: the element it touched")),
      stepDetail(step, given(at, screen.querySelector(".overlay"))));
    for (const nodes of [film, table.rows]) nodes.forEach((node, i) => node.setAttribute("aria-current", String(i === at)));
    // Only the strip scrolls: scrollIntoView would also move the page.
    const strip = film[at].parentElement;
    if (strip) strip.scrollLeft = film[at].offsetLeft - strip.offsetLeft - strip.clientWidth / 2 + 26;
    moved(at);
  }
  function move(by) {
    if (at + by >= 0 && at + by <= last) show(at + by);
  }

  const fact = (name, value) => el("span", {}, `${name} `, el("b", {}, value));
  put(target,
    el("h3", {}, task.instruction),
    el("div", { class: "facts" }, outcomePill(row.outcome),
      fact("reward", short(row.reward)), body.shaped_reward === null ? null : fact("shaped reward", short(body.shaped_reward)), fact("steps", `${row.steps} of ${task.max_steps}`), fact("took", duration(body.wall_s)),
      RUNS.length > 1 ? fact("run", row.run.name) : null, fact("from", row.source.label), fact("task", task.id), fact("device", body.device_id),
      isReplay(row.source.name) ? el("a", { href: "#replay" }, "the replay buffer")
        : el("a", { href: groupLink({ rows: [row], source: row.source, number: row.group }) }, "its group side by side")),
    body.error ? el("p", { class: "error" }, body.error) : null,
    last < 0 ? empty("This episode ended before its first step.") : [holder, el("div", { class: "film" }, film), all]);
  if (last >= 0) show(Math.min(Math.max(start, 0), last));
  return { move, toggle: () => { all.open = !all.open; } };
}
