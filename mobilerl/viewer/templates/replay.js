// What the replay buffer held at the newest checkpoint.

const REPLAY_SORTS = {
  buffer: (a, b) => a.index - b.index,
  advantage: (a, b) => (b.advantage ?? -Infinity) - (a.advantage ?? -Infinity),
  newest: (a, b) => a.age - b.age,
  oldest: (a, b) => b.age - a.age,
};

const replayView = {
  title: "Replay",
  async draw(target) {
    const buffer = await replayOf(RUNS[0]);
    const charts = chartGrid(REPLAY_CURVES, [RUNS[0]]);
    if (!buffer.rows.length) {
      return void put(target, charts, empty("No replayed trajectories yet: the buffer is read from the newest checkpoint."));
    }
    const order = choice("Order", [["buffer", "in the buffer's order"], ["advantage", "largest advantage first"],
      ["newest", "newest first"], ["oldest", "oldest first"]], () => refresh());
    const words = el("input", { type: "search", placeholder: "task, app or instruction", "aria-label": "Search", oninput: () => refresh() });
    const count = el("span", { class: "muted" });
    let shown = [], at = -1;
    const list = virtualList(40, (i) => replayRow(shown[i], i === at), "Replay buffer");

    function refresh() {
      const wanted = words.value.toLowerCase();
      shown = buffer.rows.filter((row) => `${row.task.id} ${row.task.app} ${row.task.instruction}`.toLowerCase().includes(wanted))
        .sort(REPLAY_SORTS[order.value]);
      count.textContent = `${shown.length} of ${plural(buffer.rows.length, "episode")}, after iteration ${buffer.iteration}`;
      at = -1;
      list.set(shown.length);
    }
    put(target, el("div", { class: "filters" }, order, words, count),
      el("div", { class: "card fill" }, el("div", { class: "replayrow head" }, ["Task", "Advantage", "Rarity", "Age", "From", "Reward", "Steps"].map((t, i) =>
        el("span", { class: i ? "num" : "" }, t))), list.node), charts);
    refresh();
    this.enter = () => list.redraw();
    this.move = (by) => {
      at = Math.min(shown.length - 1, Math.max(0, at + by));
      list.show(at);
    };
    this.openCurrent = () => { if (at >= 0) location.hash = linkTo(shown[at]); };
    this.search = words;
  },
};

function replayRow(row, current) {
  const number = (value) => el("span", { class: "num" }, value);
  return el("button", { type: "button", class: "replayrow", "aria-current": String(current), onclick: () => { location.hash = linkTo(row); } },
    el("span", { class: "two" }, el("b", {}, row.task.template), el("span", { class: "muted" }, row.task.instruction)),
    number(row.advantage === null ? "–" : signed(row.advantage)), number(row.rarity === null ? "–" : percent(row.rarity)),
    number(String(row.age)), number(`iteration ${row.iteration}`), number(short(row.reward)), number(String(row.steps)));
}
