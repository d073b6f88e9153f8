// Two runs: overlaid curves, matching evaluations, and tasks side by side.

const diffView = {
  title: "Difference",
  async draw(target) {
    const linked = [], compared = [...MAIN_CURVES, SPEED_CURVES[1]];
    const pairs = DATA.pairs.between.map((head, i) => el("div", { class: "suite card" }, el("h3", {}, `${head.suite}: ${head.after}`),
      el("p", { class: "verdict" }, `${RUNS[1].name} ${percent(head.rates[0])}, ${RUNS[0].name} ${percent(head.rates[1])}`),
      verdict({ ...head, before: RUNS[1].name, after: RUNS[0].name }),
      pairPanel("between", i, [RUNS[1], RUNS[0]])));
    const whole = el("div", {}), single = el("div", {});
    put(target, whole, single);
    const indices = await Promise.all(RUNS.map(indexOf));
    const tasks = commonTasks(indices);
    put(whole, el("p", { class: "lead" }, el("span", { class: "key" }, el("i", { style: { background: SERIES[0] } }), el("b", {}, RUNS[0].name)),
      " against ", el("span", { class: "key" }, el("i", { style: { background: SERIES[1] } }), el("b", {}, RUNS[1].name))),
    chartGrid(compared, RUNS, linked) || empty("Neither run has metrics to compare."),
    el("h2", {}, "Evaluations"), pairs.length ? pairs : empty("The two runs have no evaluation of the same suite."),
    el("h2", {}, "Tasks with saved training trajectories in both runs"), tasks.length ? taskPairs(tasks) : empty("None."));

    const parts = {};
    this.enter = async (id) => {
      const task = id && tasks.find((t) => t.id === id);
      whole.hidden = Boolean(task);
      single.hidden = !task;
      parts.lanes = null;
      if (!task) return;
      try {
        const members = await Promise.all(task.sides.flatMap((rows) => rows.slice(0, 4)).map(async (row) => (
          { row, body: await bodyOf(row), name: `${row.run.name}, ${row.source.label}` })));
        parts.lanes = lanes(members);
        put(single, el("div", { class: "grouphead" }, el("h3", {}, task.instruction), el("div", { class: "facts" }, el("span", {}, task.id),
          el("span", {}, "the latest four of each run"), el("a", { href: "#diff" }, "the whole difference"))), parts.lanes.node);
      } catch (error) {
        failure(single, error);
      }
    };
    this.move = (by) => parts.lanes && parts.lanes.move(by);
    this.step = (by) => parts.lanes && parts.lanes.step(by);
    this.openCurrent = () => parts.lanes && parts.lanes.open();
    this.up = () => { if (!single.hidden) location.hash = "#diff"; };
  },
};

/** Tasks with training trajectories in both runs, largest difference in success first.
 * Those of an evaluation are another policy's, and `pairPanel` shows them. */
function commonTasks(indices) {
  const [mine, theirs] = indices.map((index) => {
    const found = new Map();
    for (const row of index.rows.filter(ofTraining)) {
      if (!found.has(row.task.id)) found.set(row.task.id, []);
      found.get(row.task.id).push(row);
    }
    return found;
  });
  const won = (rows) => mean(rows.map((r) => Number(r.outcome === "success")));
  return [...mine].filter(([id]) => theirs.has(id)).map(([id, rows]) => {
    const sides = [rows, theirs.get(id)];
    return { id, instruction: rows[0].task.instruction, sides, change: won(sides[0]) - won(sides[1]) };
  }).sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

function taskPairs(tasks) {
  const cell = (rows) => el("td", { class: "num" }, `${rows.filter((r) => r.outcome === "success").length}/${rows.length} `,
    el("a", { href: linkTo(rows[0]), title: `newest: ${rows[0].source.label}` }, "▸"));
  return el("div", { class: "scroll tall" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Task"), el("th", {}, "Instruction"),
    RUNS.map((run) => el("th", { class: "num" }, run.name)), el("th", { class: "num" }, "Change"))),
  el("tbody", {}, tasks.slice(0, 500).map((task) => el("tr", {}, el("td", {}, el("a", { href: `#diff/${encodeURIComponent(task.id)}` }, task.id)),
    el("td", { class: "muted" }, task.instruction), task.sides.map(cell),
    el("td", { class: "num " + (task.change > 0 ? "up" : task.change < 0 ? "down" : "") }, task.change ? points(task.change) : "0"))))));
}
