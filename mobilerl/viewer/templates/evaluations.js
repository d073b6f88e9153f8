// Evaluations of each suite: success rates with intervals, the paired difference, and every task.

function suitesOf(run) {
  return [...new Set(run.evaluations.map((e) => e.suite))].map((suite) => [suite, run.evaluations.filter((e) => e.suite === suite)]);
}

function evaluationSummary(run) {
  return suitesOf(run).map(([suite, found]) => el("div", { class: "suite card" }, el("h3", {}, suite), forest(found.map((e) => [e.name, e, run])),
    verdict(DATA.pairs.within.find((d) => d.suite === suite))));
}

const evaluationsView = {
  title: "Evaluations",
  draw(target) {
    const run = RUNS[0];
    if (!run.evaluations.length) put(target, empty("No evaluations yet: results.json files in eval/ will be shown here."));
    for (const [suite, found] of suitesOf(run)) {
      const place = DATA.pairs.within.findIndex((d) => d.suite === suite);
      target.append(el("div", { class: "suite card" }, el("h3", {}, suite), forest(found.map((e) => [e.name, e, run])), verdict(DATA.pairs.within[place]),
        place < 0 ? null : pairPanel("within", place, [run, run]), taskTable(found), protocolTable(found)));
    }
  },
};

/** Success rates with their intervals, each in the color of its run, on one axis; `named` is [name, evaluation, run]. */
function forest(named) {
  const cells = named.map(([name, e, run]) => {
    const [low, high] = e.ci95, color = RUN_COLORS[run.number];
    const at = (value) => (100 * value).toFixed(2) + "%";
    return [
      el("span", { class: "name" }, name),
      el("div", { class: "track" },
        el("div", { class: "span", style: { left: at(low), width: at(high - low), background: color } }),
        e.success_rate === null ? null : el("div", { class: "dot", style: { left: at(e.success_rate), background: color } })),
      el("span", { class: "number" }, el("b", {}, percent(e.success_rate)),
        el("span", { class: "muted" }, ` ${percent(low)} to ${percent(high)} · ${e.successes}/${e.trials}` +
          (e.errors ? ` · ${e.errors} infra errors` : ""))),
    ];
  });
  return el("div", { class: "forest" }, cells, el("span", { class: "blank" }),
    el("div", { class: "axis" }, ["0%", "25%", "50%", "75%", "100%"].map((text) => el("span", {}, text))));
}

function verdict(found) {
  if (!found) return null;
  if (found.reason) return el("p", { class: "verdict muted" }, `${found.before} and ${found.after} cannot be paired: ${found.reason}`);
  const [low, high] = found.interval;
  return el("p", { class: "verdict" }, `${found.after} against ${found.before}: `,
    el("b", {}, `${points(found.difference)} points`),
    el("span", { class: "muted" }, `, 95% interval ${points(low)} to ${points(high)}, paired on ${found.instances} instances`));
}

function rate(task) {
  return task && task.trials ? task.successes / task.trials : null;
}

function taskTable(evaluations) {
  const names = [...new Set(evaluations.flatMap((e) => Object.keys(e.per_task)))].sort();
  const head = el("tr", {}, el("th", {}, "Task"), el("th", {}, "App"),
    evaluations.map((e) => el("th", { class: "num" }, e.name)), evaluations.length > 1 ? el("th", { class: "num" }, "Change") : null,
    el("th", { class: "num" }, "Mean steps"));
  const rows = names.map((name) => {
    const tasks = evaluations.map((e) => e.per_task[name]), any = tasks.find(Boolean);
    const first = rate(tasks[0]), last = rate(tasks[tasks.length - 1]);
    const change = first === null || last === null ? null : last - first;
    const sign = change > 0 ? "+" : change < 0 ? "−" : "";
    return el("tr", {}, el("td", {}, name, any.feasible ? null : el("span", { class: "muted" }, " infeasible")),
      el("td", { class: "muted" }, any.app),
      tasks.map((t) => el("td", { class: "num" }, t ? `${t.successes}/${t.trials}` : "–",
        t && t.errors ? el("span", { class: "muted" }, ` +${t.errors} err`) : null)),
      evaluations.length > 1 ? el("td", { class: "num" },
        change === null ? "–" : sign + (100 * Math.abs(change)).toFixed(0)) : null,
      el("td", { class: "num" }, tasks.map((t) => (t && t.mean_steps !== null ? t.mean_steps.toFixed(1) : "–")).join(" → ")));
  });
  return el("details", { open: names.length <= 25 ? "" : null }, el("summary", {}, plural(names.length, "task")),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows))));
}

function protocolTable(evaluations) {
  const keys = [...new Set(evaluations.flatMap((e) => Object.keys(e.protocol)))];
  const text = (value) => (value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
  const rows = keys.map((key) => {
    const values = evaluations.map((e) => text(e.protocol[key]));
    const differs = new Set(values).size > 1;
    return el("tr", {}, el("td", {}, key), values.map((v) => el("td", {}, differs ? el("b", {}, v) : v)));
  });
  return el("details", {}, el("summary", {}, "Protocol"), el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, "Setting"), evaluations.map((e) => el("th", {}, e.name)))),
    el("tbody", {}, rows))));
}
