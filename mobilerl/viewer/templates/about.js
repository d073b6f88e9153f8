// The head of a run: what was trained how, when and with which command.

function fact(name, ...value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}

function settingText(value) {
  if (Array.isArray(value)) return value.map(settingText).join(", ") || "none";
  return value === "" || value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
}

/** The model of a recipe: a name on the Hub, or the end of a path. */
function modelText(model) {
  const parts = model.split("/");
  return el("span", { title: model }, !model ? "tiny, from random weights" : parts.length > 3 ? "…/" + parts.slice(-2).join("/") : model);
}

function whenText(time) {
  const at = new Date(time);
  return isNaN(at) ? time : at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** What a run trains with: the algorithm, or SFT for a run of stages. */
function methodOf(run) {
  return run.metrics.stage ? "SFT" : run.about.algorithm;
}

function startText(starts) {
  const resumed = starts.length - 1;
  return [whenText(starts[0].time), resumed > 0 ? el("span", { class: "muted" }, ` · resumed ${resumed === 1 ? "" : `${resumed} times, last `}${whenText(starts[resumed].time)}`) : null,
    el("span", { class: "muted" }, ` · mobilerl ${starts[resumed].version}`)];
}

function aboutCard(run) {
  const { about } = run, { starts } = about;
  const facts = about.algorithm ? [fact("Model", modelText(about.model)), fact("Algorithm", methodOf(run)),
    fact("Suite", about.suite), fact("Seed", String(about.seed))] : [];
  if (starts.length) facts.push(fact("Started", startText(starts)));
  if (!facts.length && !about.reason) return null;
  const command = starts.length ? starts[starts.length - 1].command || "from Python, in a notebook" : null;
  return el("div", { class: "about card" }, el("dl", { class: "what" }, facts),
    command && el("code", { class: "command", title: "command of the last start" }, command),
    about.reason ? el("p", { class: "error" }, about.reason) : null,
    about.settings && about.settings.length ? el("details", { open: "" }, el("summary", {}, `${plural(about.settings.length, "setting")} differ from the defaults`),
      settingList(about.settings)) : null);
}

/** Settings by section; pointing at one shows its default. */
function settingList(settings) {
  const sections = new Map();
  for (const [name, value, usual] of settings) {
    const dot = name.indexOf("."), section = name.slice(0, Math.max(dot, 0));
    sections.set(section, [...(sections.get(section) || []), [name.slice(dot + 1), value, usual]]);
  }
  return el("div", { class: "settings" }, [...sections].map(([section, rows]) => el("div", {}, el("h4", {}, section || "run"),
    rows.map(([name, value, usual]) => el("span", { class: "setting", title: `default: ${settingText(usual)}` }, name + " ", el("b", {}, settingText(value)))))));
}

/** Model, algorithm, seed, date and the settings in which the runs differ, side by side; null when no run has a recipe. */
function aboutTable(runs) {
  const known = runs.filter((run) => run.about.algorithm);
  if (!known.length) return null;
  const tables = runs.map((run) => new Map((run.about.settings || []).map(([name, value]) => [name, settingText(value)])));
  const usual = new Map(known.flatMap((run) => run.about.settings.map(([name, , value]) => [name, settingText(value)])));
  const of = (run, i, name) => (run.about.algorithm ? tables[i].get(name) ?? usual.get(name) : "–");
  const rows = [["Model", (run) => modelText(run.about.model)], ["Algorithm", methodOf], ["Seed", (run) => String(run.about.seed)],
    ["Started", (run) => (run.about.starts.length ? whenText(run.about.starts[0].time) : "–")],
    ...[...usual.keys()].map((name) => [name, (run, i) => of(run, i, name), true])]
    .map(([name, read, setting]) => [name, runs.map((run, i) => (run.about.algorithm ? read(run, i) : "–")), setting])
    .filter(([, values, setting]) => !setting || new Set(values).size > 1);
  return el("div", { class: "scroll card runs" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}), runs.map((run) => el("th", {}, run.name)))),
    el("tbody", {}, rows.map(([name, values, setting]) => el("tr", {}, el("td", { class: setting ? "mono" : "muted" }, name),
      values.map((value) => el("td", {}, value)))))));
}
