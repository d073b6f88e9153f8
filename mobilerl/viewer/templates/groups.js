// The list of groups, and one group side by side.

const SPREADS = { mixed: "mixed", all: "all succeed", none: "all fail" };

function squares(rows) {
  return el("span", { class: "squares" }, rows.map((row) => el("i", { class: "sign " + row.outcome, title: LABELS[row.outcome] || row.outcome })));
}

function spreadOf(group) {
  const won = group.rows.filter((row) => row.outcome === "success").length;
  return won === 0 ? "none" : won === group.rows.length ? "all" : "mixed";
}

const groupsView = {
  title: "Groups",
  async draw(target) {
    const index = await indexOf(RUNS[0]);
    const groups = index.groups.map((g) => ({ ...g, spread: spreadOf(g), steps: mean(g.rows.map((r) => r.steps)) }));
    if (!groups.length) return void put(target, empty("No groups yet: trajectories/*.jsonl will be shown here."));
    const overview = el("div", {}), single = el("div", {}), parts = { current: null, lanes: null };
    const count = (spread) => groups.filter((g) => g.spread === spread).length;
    const filter = chips("Outcome", [["", "every group", groups.length], ...Object.entries(SPREADS).map(([s, text]) => [s, text, count(s)])], () => refresh());
    const source = choice("Iteration", [["", "every iteration"], ...index.sources.map((s) => [s.name, s.label])], () => refresh());
    const words = el("input", { type: "search", placeholder: "task or instruction", "aria-label": "Search", oninput: () => refresh() });
    let shown = groups, at = -1;
    const list = virtualList(40, (i) => groupRow(shown[i], i === at, () => { location.hash = groupLink(shown[i]); }), "Groups");

    function refresh() {
      const wanted = words.value.toLowerCase();
      shown = groups.filter((g) => (!filter.value || g.spread === filter.value) && (!source.value || g.source.name === source.value)
        && `${g.task.id} ${g.task.instruction}`.toLowerCase().includes(wanted));
      at = -1;
      list.set(shown.length);
    }
    put(overview, el("div", { class: "filters" }, filter.node, source, words, outcomeLegend()), el("div", { class: "card fill" },
      el("div", { class: "grouprow head" }, ["From", "Task", "Episodes", "Won", "Mean steps"].map((t, i) => el("span", { class: i > 2 ? "num" : "" }, t))), list.node));
    put(target, overview, single);
    refresh();

    this.enter = async (rest, params, linked) => {
      const group = linked && (await indexOf(linked.run)).groups.find((g) => g.source.name === linked.source && g.number === linked.index);
      overview.hidden = Boolean(linked);
      single.hidden = !linked;
      parts.lanes = null;
      if (!linked) return list.redraw();
      if (!group) return void put(single, empty("There is no such group."));
      parts.current = group;
      at = shown.findIndex((g) => g.source === group.source && g.number === group.number);
      try {
        const members = await Promise.all(group.rows.map(async (row) => ({ row, body: await bodyOf(row) })));
        if (parts.current !== group) return;
        parts.lanes = lanes(members);
        put(single, groupHead(group), parts.lanes.node);
      } catch (error) {
        failure(single, error);
      }
    };
    const other = (by) => {
      const next = shown[at + by];
      if (next) location.hash = groupLink(next);
    };
    this.move = (by) => {
      if (parts.lanes) return parts.lanes.move(by);
      at = Math.min(shown.length - 1, Math.max(0, at + by));
      list.show(at);
    };
    this.step = (by) => parts.lanes && parts.lanes.step(by);
    this.turn = (by) => !single.hidden && other(by);
    this.openCurrent = () => (parts.lanes ? parts.lanes.open() : at >= 0 && (location.hash = groupLink(shown[at])));
    this.up = () => { if (!single.hidden) location.hash = "#groups"; };
    this.search = words;
  },
};

function groupRow(group, current, open) {
  const won = group.rows.filter((r) => r.outcome === "success").length;
  return el("button", { type: "button", class: "grouprow", "aria-current": String(current), onclick: open },
    el("span", { class: "muted cut", title: group.source.label }, group.source.label),
    el("span", { class: "two" }, el("b", {}, group.task.template), el("span", { class: "muted" }, group.task.instruction)),
    squares(group.rows), el("span", { class: "num" }, `${won}/${group.rows.length}`), el("span", { class: "num" }, group.steps.toFixed(1)));
}

function groupHead(group) {
  const won = group.rows.filter((r) => r.outcome === "success").length;
  return el("div", { class: "grouphead" }, el("h3", {}, group.task.instruction),
    el("div", { class: "facts" }, squares(group.rows), el("span", {}, el("b", {}, `${won} of ${group.rows.length}`), " succeeded"),
      el("span", {}, group.source.label), el("span", {}, group.task.id),
      el("a", { href: `#tasks/${encodeURIComponent(group.task.id)}` }, "task"), el("a", { href: "#groups" }, "all groups")));
}
