// The state of each device over time, its utilization and its faults.

const FLEET_KEYS = [["leased", "busy"], ["ready", "ready"], ["refreshing", "refreshing"], ["starting", "starting"],
  ["quarantined", "quarantined; at the top: a fault"]];

const fleetView = {
  title: "Fleet",
  async draw(target) {
    const run = RUNS[0];
    const table = await load(`${run.folder}/fleet`);
    const charts = chartGrid(FLEET_CURVES, [run]);
    if (!table.devices.length) {
      return void put(target, charts || empty("No devices yet: fleet.jsonl will be shown here."));
    }
    const order = choice("Order", [["place", "by place"], ["faults", "most faults first"], ["idle", "least busy first"]], () => refresh());
    const words = el("input", { type: "search", placeholder: "device, state or fault", "aria-label": "Search", oninput: () => refresh() });
    const natural = new Intl.Collator("en", { numeric: true }).compare;
    const sorts = { place: (a, b) => natural(a.place, b.place), faults: (a, b) => (b.faults ?? 0) - (a.faults ?? 0),
      idle: (a, b) => (a.busy ?? 2) - (b.busy ?? 2) };
    let shown = [], at = -1;
    const list = virtualList(40, (i) => deviceRow(shown[i], table.columns.length, i === at, () => { at = i; list.redraw(); }), "Devices");

    function refresh() {
      const wanted = words.value.toLowerCase();
      shown = table.devices.filter((d) => `${d.place} ${d.device} ${d.state} ${d.reason}`.toLowerCase().includes(wanted)).sort(sorts[order.value]);
      at = -1;
      list.set(shown.length);
    }
    put(target, fleetTiles(table), el("div", { class: "filters" }, order, words,
      el("span", { class: "keys" }, FLEET_KEYS.map(([kind, text]) => el("span", { class: "key " + kind }, el("i"), text)))),
    el("div", { class: "card fill" }, deviceHead(table.columns), list.node), charts);
    refresh();
    this.enter = () => list.redraw();
    this.move = (by) => {
      at = Math.min(shown.length - 1, Math.max(0, at + by));
      list.show(at);
    };
    this.openCurrent = () => {
      if (at >= 0) location.hash = deviceLink(shown[at]);
    };
    this.search = words;
  },
};

function fleetTiles(table) {
  const tiles = [tile("Devices", String(table.devices.length))];
  if (table.columns.length) {
    const busy = table.devices.map((d) => d.busy).filter((v) => v !== null), span = extent(busy);
    const faults = table.devices.reduce((sum, d) => sum + d.faults, 0), faulty = table.devices.filter((d) => d.faults).length;
    const states = {};
    for (const d of table.devices) states[d.state] = (states[d.state] || 0) + 1;
    tiles.push(tile("Busy", percent(mean(busy)), span && `${percent(span[0])} to ${percent(span[1])}`),
      tile("Faults", String(faults), faults ? `on ${plural(faulty, "device")}` : "none"),
      tile("Now", `${states.leased || 0} + ${states.ready || 0}`, "busy + ready" +
        Object.entries(states).filter(([s]) => s !== "leased" && s !== "ready").map(([s, n]) => `, ${n} ${s}`).join("")));
  }
  return el("div", { class: "tiles" }, tiles);
}

function deviceHead(columns) {
  const span = columns.length ? `State, iterations ${columns[0][0]} to ${columns[columns.length - 1][1]}` : "";
  return el("div", { class: "devicerow head" }, el("span", {}, "Device"), el("span", {}, "State"), el("span", {}, span),
    el("span", { class: "num" }, "Busy"), el("span", { class: "num" }, "Faults"), el("span", {}, "Last fault"), el("span", { class: "num" }, "Saved"));
}

function deviceRow(device, columns, current, choose) {
  return el("div", { class: "devicerow", "aria-current": String(current), onclick: choose },
    el("span", { class: "two" }, el("b", {}, device.place), device.device === device.place ? null : el("span", { class: "muted" }, device.device)),
    el("span", {}, pill(device.state, device.state === "leased" ? "busy" : device.state)), deviceStrip(device, columns),
    el("span", { class: "num" }, device.busy === null ? "–" : percent(device.busy)),
    el("span", { class: "num" }, String(device.faults)),
    el("span", { class: "cut muted", title: device.reason }, device.reason),
    el("span", { class: "num" }, device.episodes ? el("a", { href: deviceLink(device), title: "its saved trajectories" }, String(device.episodes)) : "–"));
}

function deviceLink(device) {
  return `#trajectories?device=${encodeURIComponent(device.device)}`;
}
