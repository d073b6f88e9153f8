// The filtered list of trajectories, next to the selected one.

const trajectoriesView = {
  title: "Trajectories",
  async draw(target) {
    const run = RUNS[0], index = await indexOf(run);
    if (!index.rows.length) {
      this.enter = () => {};
      return void put(target, empty("No trajectories yet: trajectories/*.jsonl will be shown here."));
    }
    const pane = el("div", { class: "player card" }, el("p", { class: "muted" },
      "Choose a trajectory. ← and → step through it; j and k go to the next and the previous one; ? shows every key."));
    const count = el("span", { class: "muted count" });
    const all = index.rows;
    let shown = all, current = null, playing = null, device = "";
    const list = virtualList(66, (i) => trajectoryRow(shown[i], shown[i] === current, () => open(shown[i], 0)), "Trajectories");

    const source = choice("Iteration", [["", "every iteration"], ...index.sources.map((s) => [s.name, s.label])], () => refresh());
    const templates = [...new Set(index.tasks.map((t) => t.template))].sort();
    const template = choice("Task", [["", "every task"], ...templates.map((t) => [t, t])], () => refresh());
    const outcome = choice("Outcome", [["", "every outcome"], ["failure", "any failure"], ...Object.entries(LABELS)], () => refresh());
    const words = el("input", { type: "search", placeholder: "instruction or task id", "aria-label": "Search", oninput: () => refresh() });
    const only = el("button", { type: "button", class: "chip", hidden: "", title: "show every device", onclick: () => { device = ""; refresh(); } });

    function refresh() {
      const wanted = words.value.toLowerCase();
      shown = all.filter((row) => (!source.value || row.source.name === source.value)
        && (!template.value || row.task.template === template.value)
        && (!outcome.value || row.outcome === outcome.value
          || (outcome.value === "failure" && row.outcome !== "success" && row.outcome !== "infra_error"))
        && (!device || row.device === device)
        && `${row.task.instruction} ${row.task.id}`.toLowerCase().includes(wanted));
      count.textContent = `${shown.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}`;
      only.hidden = !device;
      only.textContent = `device ${device} ×`;
      list.set(shown.length);
    }
    async function open(row, step) {
      current = row;
      if (shown.includes(row)) list.show(shown.indexOf(row));
      try {
        const body = await bodyOf(row);
        if (row !== current) return; // another one was chosen while this loaded
        playing = player(pane, row, body, step, (at) => history.replaceState(null, "", linkTo(row, at)));
        const below = pane.getBoundingClientRect().top >= list.node.getBoundingClientRect().bottom; // on a narrow screen
        if (below) pane.scrollIntoView({ block: "start" });
      } catch (error) {
        failure(pane, error);
      }
    }
    put(target, el("div", { class: "filters" }, source, template, outcome, words, only, count),
      el("div", { class: "browser" }, el("div", { class: "card fill" }, list.node), pane));
    refresh();

    this.enter = async (rest, params, linked) => {
      if (params) {
        const task = params.get("task") || "";
        source.value = "";
        template.value = templates.includes(task) ? task : "";
        words.value = template.value ? "" : task;
        outcome.value = params.get("outcome") || "";
        device = params.get("device") || "";
        refresh();
      }
      if (!linked) return list.redraw();
      const row = await rowOf(linked);
      if (!row) return void put(pane, empty(`There is no trajectory ${linked.index} in ${linked.source}.`));
      if (!shown.includes(row) && all.includes(row)) {
        for (const field of [source, template, outcome, words]) field.value = "";
        device = "";
        refresh();
      }
      return open(row, linked.step);
    };
    this.move = (by) => {
      const next = shown[Math.min(shown.length - 1, Math.max(0, shown.indexOf(current) + by))];
      if (next && next !== current) open(next, 0);
    };
    this.step = (by) => playing && playing.move(by);
    this.toggle = () => playing && playing.toggle();
    this.search = words;
    this.up = () => { if (current) location.hash = isReplay(current.source.name) ? "#replay" : groupLink({ rows: [current], source: current.source, number: current.group }); };
  },
};

function trajectoryRow(row, current, open) {
  return el("button", { type: "button", class: "row", "aria-current": String(current), onclick: open },
    el("span", { class: "task" }, row.task.template), outcomePill(row.outcome),
    el("span", { class: "say" }, row.task.instruction),
    el("span", { class: "meta" }, row.source.label),
    el("span", { class: "meta" }, `${plural(row.steps, "step")} · reward ${short(row.reward)}`));
}
