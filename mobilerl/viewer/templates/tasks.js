// The state of every task in the curriculum, since when, and the results of its episodes.

const SORTS = {
  state: (a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || (b.since ?? -1) - (a.since ?? -1),
  name: () => 0,
  worst: (a, b) => (a.rate ?? 2) - (b.rate ?? 2),
  best: (a, b) => (b.rate ?? -1) - (a.rate ?? -1),
  played: (a, b) => b.tried - a.tried,
  since: (a, b) => (b.since ?? -1) - (a.since ?? -1),
};

const tasksView = {
  title: "Tasks",
  async draw(target) {
    const run = RUNS[0];
    const [raw, index] = await Promise.all([load(`${run.folder}/tasks`), indexOf(run)]);
    if (!raw.length) return void put(target, empty("No tasks yet: tasks.jsonl will be shown here."));
    const tasks = raw.map((task) => readTask(task, index));
    const span = extent(tasks.flatMap((t) => t.played.map((p) => p[0]))); // null when no episode was counted yet
    const detail = el("aside", { class: "card side" }, el("p", { class: "muted" }, "Choose a task."));
    const count = (state) => tasks.filter((t) => t.state === state).length;
    const filter = chips("State", [["", "every", tasks.length],
      ...STATES.filter(count).map((s) => [s, s.replace("_", " "), count(s)])], () => refresh());
    const order = choice("Order", [["state", "by state"], ["name", "by name"], ["worst", "worst first"], ["best", "best first"],
      ["played", "most episodes"], ["since", "latest change"]], () => refresh());
    const words = el("input", { type: "search", placeholder: "task or instruction", "aria-label": "Search", oninput: () => refresh() });
    let shown = tasks, current = null;
    const list = virtualList(40, (i) => taskRow(shown[i], span, shown[i] === current, () => open(shown[i])), "Tasks");

    function refresh() {
      const wanted = words.value.toLowerCase();
      shown = tasks.filter((t) => (!filter.value || t.state === filter.value) && t.text.includes(wanted)).sort(SORTS[order.value]);
      list.set(shown.length);
    }
    function open(task) {
      current = task;
      history.replaceState(null, "", `#tasks/${encodeURIComponent(task.key)}`);
      put(detail, taskDetail(task));
      list.show(shown.indexOf(task));
    }
    put(target, el("div", { class: "filters" }, filter.node, order, words),
      el("div", { class: "with-detail" }, el("div", { class: "card fill" }, taskHead(span), list.node), detail));
    refresh();
    this.enter = (key) => {
      const task = key && (tasks.find((t) => t.key === key) || tasks.find((t) => t.rows.some((row) => row.task.id === key)));
      if (task) open(task);
      else list.redraw();
    };
    this.move = (by) => {
      const next = shown[Math.min(shown.length - 1, Math.max(0, shown.indexOf(current) + by))];
      if (next) open(next);
    };
    this.search = words;
  },
};

function readTask(task, index) {
  const rows = index.rows.filter((row) => row.task.id === task.key || row.task.template === task.key);
  const [tried, won] = task.played.reduce(([t, w], [, n, s]) => [t + n, w + s], [0, 0]);
  const recent = task.played.slice(-3).reduce(([t, w], [, n, s]) => [t + n, w + s], [0, 0]);
  const single = rows.length && rows[0].task.id === task.key; // a template has many instructions
  const instruction = rows.length ? (single ? "" : "e.g. ") + rows[0].task.instruction : "";
  return { ...task, rows, tried, won, recent, rate: recent[0] ? recent[1] / recent[0] : null, instruction,
    text: `${task.key} ${instruction}`.toLowerCase() };
}

function taskHead(span) {
  return el("div", { class: "taskrow head" }, el("span", {}, "State"), el("span", {}, "Task"),
    el("span", {}, span ? `Successes (green) and failures, iterations ${span[0]} to ${span[1]}` : "Success"),
    el("span", { class: "num" }, "Last 3"), el("span", { class: "num" }, "Since"));
}

function taskRow(task, span, current, open) {
  return el("button", { type: "button", class: "taskrow", "aria-current": String(current), onclick: open },
    el("span", {}, statePill(task.state)),
    el("span", { class: "two" }, el("b", {}, task.key), el("span", { class: "muted" }, task.instruction)),
    span ? successStrip(task.played, span[0], span[1]) : el("span", {}),
    el("span", { class: "num" }, task.recent[0] ? `${task.recent[1]}/${task.recent[0]}` : "–"),
    el("span", { class: "num muted" }, task.since === null ? "–" : String(task.since)));
}

function taskDetail(task) {
  const metrics = { iteration: task.played.map((p) => p[0]), success: task.played.map(([, n, s]) => s / n), episodes: task.played.map((p) => p[1]) };
  const curves = task.played.length ? chartGrid([
    { title: "Success", format: percent, domain: [0, 1], series: [{ key: "success", name: "of the iteration's episodes" }] },
    { title: "Episodes", zero: true, series: [{ key: "episodes", name: "per iteration" }] }], [{ name: "", metrics }]) : null;
  const changes = [...task.changes];
  if (task.state === "solved") changes.push([task.since, "solved"]);
  const history = changes.sort((a, b) => a[0] - b[0]).reverse().map(([iteration, state]) =>
    el("li", {}, statePill(state), el("span", { class: "muted" }, ` since iteration ${iteration}`)));
  const groups = new Map();
  for (const row of task.rows) groups.set(`${row.source.name}/${row.group}`, [...(groups.get(`${row.source.name}/${row.group}`) || []), row]);
  return [el("h3", {}, task.key), task.instruction ? el("p", {}, task.instruction) : null,
    el("p", { class: "muted" }, `${plural(task.tried, "episode")}, ${task.won} successful`), curves,
    history.length ? [el("h4", {}, "History"), el("ul", { class: "plain" }, history)] : null,
    groups.size ? [el("h4", {}, "Saved groups"), el("ul", { class: "plain" }, [...groups.values()].slice(0, 40).map((rows) =>
      el("li", {}, el("a", { href: groupLink({ rows, source: rows[0].source, number: rows[0].group }) }, rows[0].source.label), " ", squares(rows)))),
    el("p", {}, el("a", { href: `#trajectories?task=${encodeURIComponent(task.key)}` }, "All saved trajectories"))] : null];
}
