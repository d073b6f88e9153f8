// Trajectories of one task below each other, aligned by step, to show where they diverge.

/** `members` are {row, body, name}; the first success leads. Returns {node, move(by), step(by), open()}. */
function lanes(given) {
  const best = given.find((m) => m.row.outcome === "success") || given[0];
  const members = [best, ...given.filter((m) => m !== best)];
  const nodes = members.map((member) => lane(member, best));
  let at = 0, step = 0;

  function mark() {
    nodes.forEach((node, i) => {
      node.setAttribute("aria-current", String(i === at));
      node.querySelectorAll(".thumb").forEach((thumb, s) => thumb.setAttribute("aria-current", String(i === at && s === step)));
    });
    const thumb = nodes[at].querySelectorAll(".thumb")[step];
    (thumb || nodes[at]).scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  return {
    node: el("div", { class: "lanes" }, nodes),
    move(by) { at = Math.min(nodes.length - 1, Math.max(0, at + by)); step = Math.min(step, Math.max(0, members[at].body.steps.length - 1)); mark(); },
    step(by) { step = Math.min(Math.max(0, members[at].body.steps.length - 1), Math.max(0, step + by)); mark(); },
    open() { location.hash = linkTo(members[at].row, step); },
  };
}

function lane({ row, body, name }, best) {
  const known = body.steps.map((s) => s.advantage).filter((a) => a !== null && a !== undefined);
  const perStep = new Set(known).size > 1; // one advantage for all steps is said once, at the head of the lane
  const parts = partsAt(body.steps, best.body.steps);
  const logprob = mean(body.steps.map((s) => s.logprob).filter((v) => v !== null));
  const line = (label, value) => value && el("div", {}, el("span", { class: "muted" }, label + " "), value);
  return el("section", { class: "lane card" },
    el("div", { class: "lanehead" }, name ? el("div", { class: "muted" }, name) : null, el("div", {}, outcomePill(row.outcome)),
      line("reward", el("b", {}, short(row.reward))),
      body.shaped_reward === null ? null : line("shaped", el("b", { title: "after the shortest-path adjustment" }, short(body.shaped_reward))),
      line("advantage", known.length ? advantageText(mean(known)) : null),
      line("log-prob.", logprob === null ? null : el("b", {}, logprob.toFixed(2))),
      line("steps", el("b", {}, `${row.steps} of ${row.task.max_steps}`)), line("device", el("b", {}, row.device)),
      body === best.body ? el("div", { class: "muted" }, "reference for the others")
        : parts === null ? null : el("div", {}, el("span", { class: "muted" }, "differs at step "), el("b", {}, String(parts + 1)), el("span", { class: "muted" }, ", dashed")),
      body.error ? el("div", { class: "error clamp", title: body.error }, body.error) : null),
    el("div", { class: "thumbs" }, body.steps.map((step, i) => el("a", { class: "thumb" + (i === parts ? " parts" : ""), href: linkTo(row, i),
      title: step.thought || actionText(step.action) }, phone(row, step, true),
    el("span", { class: "words" }, `${i + 1} ${actionWords(step)}`), !perStep ? null
      : el("span", { class: "words" }, advantageText(step.advantage))))));
}

/** The first step at which two trajectories do something else; null when there is none. Taps on one element are equal. */
function partsAt(steps, others) {
  const same = (a, b) => a && b && a.action.kind === b.action.kind
    && (a.action.kind === "tap" && a.element && b.element ? JSON.stringify(a.element.box) === JSON.stringify(b.element.box) && a.element.text === b.element.text
      : JSON.stringify(a.action) === JSON.stringify(b.action));
  for (let i = 0; i < Math.max(steps.length, others.length); i++) {
    if (!same(steps[i], others[i])) return Math.min(i, Math.max(0, steps.length - 1));
  }
  return null;
}
