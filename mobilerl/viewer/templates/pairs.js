// Two evaluations of the same instances: which were won, lost, solved in both or in neither.

const KINDS = { won: "won", lost: "lost", both: "as often", neither: "neither" };

/** The panel of DATA.pairs[where][place]; `runs` are the ones of its two evaluations, for links to trajectories. */
function pairPanel(where, place, runs, open = false) {
  const head = DATA.pairs[where][place];
  if (head.reason) return null;
  const table = el("div", { class: "scroll pairs" }, el("p", { class: "muted" }, "…"));
  const filter = chips("Outcome", Object.entries(KINDS).map(([kind, text]) => [kind, text, head.counts[kind]]), () => draw());
  filter.set(Object.keys(KINDS).find((kind) => head.counts[kind]) || "won");
  const names = [head.before, head.after];
  let rows = null, indices = null, started = false;

  async function start() {
    if (started) return;
    started = true;
    try {
      rows = (await load("data/pairs"))[where][place].rows;
      indices = await Promise.all(runs.map(indexOf));
      draw();
    } catch (error) {
      failure(table, error);
    }
  }
  function draw() {
    if (!rows) return;
    const shown = rows.filter((row) => row[4] === filter.value);
    const lines = shown.map(([task, template, before, after]) => el("tr", {},
      el("td", {}, template), el("td", { class: "muted" }, task),
      [before, after].map(([won, tried], i) => el("td", { class: "num" }, `${won}/${tried} `, savedLink(indices[i], names[i], task)))));
    put(table, shown.length ? el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Template"), el("th", {}, "Instance"),
      names.map((name, i) => el("th", { class: "num" }, runs[0] === runs[1] ? name : `${runs[i].name} ${name}`)))),
    el("tbody", {}, lines)) : empty("None."));
  }
  return el("details", { open, ontoggle: () => start() }, el("summary", {}, "Instance by instance: ",
    `${head.counts.won} won, ${head.counts.lost} lost, ${head.counts.both} solved as often, ${head.counts.neither} by neither`),
  filter.node, table);
}

/** A link to a trajectory of a task: from this evaluation if it saved any, else the latest from training. */
function savedLink(index, evaluation, task) {
  const found = index.rows.filter((row) => row.task.id === task);
  const own = found.find(({ source }) => source.number === null && source.label === evaluation);
  const row = own || found.find(ofTraining);
  return row ? el("a", { href: linkTo(row), title: `saved in ${row.source.label}` }, "▸") : null;
}
