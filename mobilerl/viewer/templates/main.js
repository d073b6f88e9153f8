// Maps the address to a view.

const TABS = [["overview", overviewView], ["tasks", tasksView], ["fleet", fleetView], ["groups", groupsView],
  ["trajectories", trajectoriesView], ["replay", replayView], ["evaluations", evaluationsView], ...(RUNS.length > 1 ? [["diff", diffView]] : [])];
const sections = new Map(); // name -> {node, ready: promise of its first drawing}
let currentName = "";
let moves = 0; // from view to view, that have not ended

/** `#iter-000080/0/4` or `#b:iter-000080/0/4` (the second run), and `#group/iter-000080/3`. */
function linkedTrajectory(hash) {
  const found = hash.match(/^(?:([b-d]):)?((?:iter|eval|replay)-\d+)\/(\d+)(?:\/(\d+))?$/);
  const run = found && RUNS["abcd".indexOf(found[1] || "a")];
  if (!run) return null;
  return { run, source: found[2], index: Number(found[3]), step: Number(found[4] || 0) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function place(hash) {
  const [path, query] = hash.split("?");
  const [name, ...rest] = path.split("/");
  if (name === "group") return { name: "groups", linked: linkedTrajectory(rest.join("/")) };
  if (linkedTrajectory(path)) return { name: "trajectories", linked: linkedTrajectory(path) };
  const known = TABS.some(([tab]) => tab === name) ? name : "overview";
  return { name: known, rest: decoded(rest.join("/")), params: query === undefined ? null : new URLSearchParams(query) };
}

/** Marks the page as busy while a view is being drawn, for screen readers and automated tests. */
async function arrive() {
  moves += 1;
  byId("main").setAttribute("aria-busy", "true");
  await go();
  moves -= 1;
  if (!moves) byId("main").setAttribute("aria-busy", "false");
}

async function go() {
  const { name, rest, params, linked } = place(location.hash.slice(1));
  const view = TABS.find(([tab]) => tab === name)[1];
  currentName = name;
  if (!sections.has(name) || sections.get(name).stale) {
    const node = el("section", { class: "view", id: "view-" + name });
    const old = sections.get(name);
    const ready = Promise.resolve(view.draw(node)).catch((error) => failure(node, error)).then(() => old && old.node.remove());
    byId("main").append(node);
    sections.set(name, { node, ready });
  }
  for (const [other, { node }] of sections) node.hidden = other !== name;
  for (const [i, link] of [...byId("nav").children].entries()) link.setAttribute("aria-current", TABS[i][0] === name ? "page" : "false");
  document.title = `${view.title} · ${RUNS[0].name} · mobilerl`;
  await sections.get(name).ready;
  if (places.has(name)) restoreLook(sections.get(name).node, places.get(name));
  if (view.enter && currentName === name) await view.enter(rest, params, linked);
  if (places.has(name)) restoreLook(sections.get(name).node, places.get(name)); // of what entering it has shown
  places.delete(name);
}

put(byId("nav"), TABS.map(([name, view], i) => el("a", { href: "#" + name, title: `${view.title} (${i + 1})` }, view.title)));
if (RUNS.length > 1) byId("run").textContent = `${RUNS[0].name} against ${RUNS.slice(1).map((run) => run.name).join(", ")}`;
drawShortcuts();
listen(() => TABS.find(([tab]) => tab === currentName)[1]);
window.addEventListener("hashchange", () => {
  scrollTo(0, 0);
  arrive();
});
arrive();
watchRun();
