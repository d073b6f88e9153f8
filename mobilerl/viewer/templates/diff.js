// Up to four runs: overlaid curves, matching evaluations, and tasks side by side.

const diffView = {
  title: "Difference",
  async draw(target) {
    const linked = [], compared = [heldOutCurve(RUNS), ...MAIN_CURVES, SPEED_CURVES[1]];
    const whole = el("div", {}), single = el("div", {});
    put(target, whole, single);
    const tasks = commonTasks(await Promise.all(RUNS.map(indexOf)));
    const evaluations = comparedSuites(), curves = [chartGrid(compared, RUNS, linked), sftCharts(RUNS)];
    put(whole, el("p", { class: "lead keys" }, RUNS.map((run) => el("span", { class: "key" },
      el("i", { style: { background: RUN_COLORS[run.number] } }), el("b", {}, run.name)))), aboutTable(RUNS),
    curves.some(Boolean) ? axisPicker(RUNS) : null,
    curves.some(Boolean) ? curves : empty("No run has metrics to compare."),
    folded("Success by app", appCharts(RUNS), true),
    el("h2", {}, "Evaluations"), evaluations.length ? evaluations : empty("No other run has an evaluation of the same suite."),
    el("h2", {}, "Tasks with saved training trajectories in several runs"), tasks.length ? taskPairs(tasks) : empty("None."));

    const parts = {};
    this.enter = async (id, params) => {
      if (!id) noteAxis(params);
      const task = id && tasks.find((t) => t.id === id);
      whole.hidden = Boolean(task);
      single.hidden = !task;
      parts.lanes = null;
      if (!task) return;
      try {
        const members = await Promise.all(task.sides.flatMap((rows) => rows.slice(0, 8 / RUNS.length)).map(async (row) => (
          { row, body: await bodyOf(row), name: `${row.run.name}, ${row.source.label}` })));
        parts.lanes = lanes(members);
        put(single, el("div", { class: "grouphead" }, el("h3", {}, task.instruction), el("div", { class: "facts" }, el("span", {}, task.id),
          el("span", {}, `the latest ${Math.floor(8 / RUNS.length)} of each run`), el("a", { href: "#diff" }, "the whole difference"))), parts.lanes.node);
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

/** A card per suite that other runs have evaluated, too: all of their rates, and the paired differences. */
function comparedSuites() {
  const suites = [...new Set(DATA.pairs.between.map((head) => head.suite))];
  return suites.map((suite) => el("div", { class: "suite card" }, el("h3", {}, suite),
    forest(RUNS.flatMap((run) => run.evaluations.filter((e) => e.suite === suite).map((e) => [`${run.name}, ${e.name}`, e, run]))),
    DATA.pairs.between.map((head, i) => {
      if (head.suite !== suite) return null;
      const other = RUNS[head.other];
      return [verdict({ ...head, before: `${other.name}, ${head.before}`, after: `${RUNS[0].name}, ${head.after}` }),
        pairPanel("between", i, [other, RUNS[0]], DATA.pairs.between.findIndex((h) => h.suite === suite && !h.reason) === i)];
    })));
}

/** Tasks with training trajectories in the first run and another one, largest difference in success first.
 * Those of an evaluation are another policy's, and `pairPanel` shows them. */
function commonTasks(indices) {
  const found = indices.map((index) => {
    const tasks = new Map();
    for (const row of index.rows.filter(ofTraining)) {
      if (!tasks.has(row.task.id)) tasks.set(row.task.id, []);
      tasks.get(row.task.id).push(row);
    }
    return tasks;
  });
  const won = (rows) => mean(rows.map((r) => Number(r.outcome === "success")));
  const common = [...found[0]].filter(([id]) => found.slice(1).some((tasks) => tasks.has(id)));
  return common.map(([id, rows]) => {
    const sides = found.map((tasks) => tasks.get(id) || []);
    const rates = sides.filter((side) => side.length).map(won), [low, high] = extent(rates);
    return { id, instruction: rows[0].task.instruction, sides, change: RUNS.length > 2 ? high - low : rates[0] - rates[1] };
  }).sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

function taskPairs(tasks) {
  const cell = (rows) => el("td", { class: "num" }, rows.length ? `${rows.filter((r) => r.outcome === "success").length}/${rows.length} ` : "–",
    rows.length ? el("a", { href: linkTo(rows[0]), title: `newest: ${rows[0].source.label}` }, "▸") : null);
  return el("div", { class: "scroll tall" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Task"), el("th", {}, "Instruction"),
    RUNS.map((run) => el("th", { class: "num" }, run.name)), el("th", { class: "num" }, RUNS.length > 2 ? "Largest difference" : "Change"))),
  el("tbody", {}, tasks.slice(0, 500).map((task) => el("tr", {}, el("td", {}, el("a", { href: `#diff/${encodeURIComponent(task.id)}` }, task.id)),
    el("td", { class: "muted" }, task.instruction), task.sides.map(cell),
    el("td", { class: "num" }, task.change ? points(task.change) : "0"))))));
}
