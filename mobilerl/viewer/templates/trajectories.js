// The list of trajectories with its filters. The steps of an iteration are a script that is loaded when needed.

const PAGE = 100;
const loaded = new Map(); // iteration name -> promise of its trajectories
const waiting = new Map(); // iteration name -> how to keep that promise

/** Called by each view/data/*.js. */
function receiveTrajectories(name, bodies) {
  waiting.get(name)(bodies);
}

function load(iteration) {
  if (!loaded.has(iteration.name)) {
    loaded.set(iteration.name, new Promise((resolve, reject) => {
      waiting.set(iteration.name, resolve);
      document.head.append(el("script", { src: `data/${iteration.name}.js`, onerror: () => reject(new Error(`view/data/${iteration.name}.js cannot be read`)) }));
    }));
  }
  return loaded.get(iteration.name);
}

function drawTrajectories(section) {
  const body = section.querySelector(".body");
  if (!DATA.rows.length) {
    body.append(el("p", { class: "empty" }, "No trajectory was saved yet: trajectories/*.jsonl will be shown here."));
    return;
  }
  const rows = DATA.rows.map(([iteration, index, task, outcome, reward, steps]) => ({
    iteration: DATA.iterations[iteration], index, task: DATA.tasks[task], outcome, reward, steps }));
  const list = el("div", { class: "list card" });
  const pane = el("div", { class: "player card" });
  const count = el("span", { class: "muted" });
  let shown = rows, page = PAGE, current = null, playing = null;

  const choice = (label, options) => el("select", { "aria-label": label, onchange: () => refresh() },
    options.map(([value, text]) => el("option", { value }, text)));
  const iteration = choice("Iteration", [["", "every iteration"], ...DATA.iterations.map((it) => [it.name, `iteration ${it.number}`])]);
  const templates = [...new Set(DATA.tasks.map((t) => t.template))].sort();
  const template = choice("Task", [["", "every task"], ...templates.map((t) => [t, t])]);
  const outcome = choice("Outcome", [["", "every outcome"], ["failure", "any failure"], ...Object.entries(LABELS)]);
  const words = el("input", { type: "search", placeholder: "words of the instruction", "aria-label": "Search", oninput: () => refresh() });

  function matches(row) {
    const failed = row.outcome !== "success" && row.outcome !== "infra_error";
    return (!iteration.value || row.iteration.name === iteration.value)
      && (!template.value || row.task.template === template.value)
      && (!outcome.value || row.outcome === outcome.value || (outcome.value === "failure" && failed))
      && row.task.instruction.toLowerCase().includes(words.value.toLowerCase());
  }
  function refresh() {
    shown = rows.filter(matches);
    page = PAGE;
    drawList();
  }
  function drawList() {
    count.textContent = `${shown.length} of ${rows.length}`;
    const nodes = shown.slice(0, page).map((row) => el("button",
      { type: "button", class: "row", "aria-current": String(row === current), onclick: () => open(row, 0) },
      el("span", { class: "task" }, row.task.template), el("span", { class: "pill " + row.outcome }, LABELS[row.outcome]),
      el("span", { class: "say" }, row.task.instruction),
      el("span", { class: "meta" }, `iteration ${row.iteration.number}`),
      el("span", { class: "meta" }, `${row.steps} steps · reward ${short(row.reward)}`)));
    if (shown.length > page) {
      nodes.push(el("button", { type: "button", class: "row", onclick: () => { page += PAGE; drawList(); } }, `Show more (${shown.length - page})`));
    }
    if (!nodes.length) nodes.push(el("p", { class: "empty" }, "Nothing matches these filters."));
    list.replaceChildren(...nodes);
  }
  async function open(row, step) {
    current = row;
    for (const [i, node] of [...list.children].entries()) node.setAttribute("aria-current", String(shown[i] === row && i < page));
    let bodies;
    try {
      bodies = await load(row.iteration);
    } catch (error) {
      pane.replaceChildren(el("p", { class: "error" }, `${error.message}; build the page again.`));
      return;
    }
    if (row !== current) return; // another one was chosen while this loaded
    playing = player(pane, row, row.task, row.iteration, bodies[row.index], step, (at) => {
      history.replaceState(null, "", `#${row.iteration.name}/${row.index}/${at}`);
    });
  }

  const cut = DATA.iterations.reduce((sum, it) => sum + it.total, 0) - rows.length;
  body.append(el("div", { class: "filters" }, iteration, template, outcome, words, count),
    el("div", { class: "browser" }, list, pane));
  if (cut) body.append(el("p", { class: "muted" }, `${cut} more trajectories are in trajectories/ but not on this page.`));
  drawList();
  document.addEventListener("keydown", (event) => {
    if (!playing || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const other = { j: 1, k: -1 }[event.key];
    if (by) playing.move(by);
    if (other && shown[shown.indexOf(current) + other]) open(shown[shown.indexOf(current) + other], 0);
    if (by || other) event.preventDefault();
  });
  const wanted = location.hash.match(/^#(iter-\d+)\/(\d+)\/(\d+)$/);
  const linked = wanted && rows.find((row) => row.iteration.name === wanted[1] && row.index === Number(wanted[2]));
  if (linked) {
    open(linked, Number(wanted[3])).then(() => section.scrollIntoView());
  } else {
    pane.append(el("p", { class: "muted" }, "Choose a trajectory. ← and → step through it; j and k go to the next and the previous one."));
  }
}
