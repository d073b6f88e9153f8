// Data loaded on demand. Each piece is a script that calls `receive`, because a page opened from disk may load scripts
// but may not fetch files.

const RUNS = DATA.runs;
const loaded = new Map(); // name -> promise of its value
const waiting = new Map(); // name -> how to keep that promise

/** Called by each data/*.js. */
function receive(name, value) {
  if (waiting.has(name)) waiting.get(name)(value);
}

function load(name) {
  if (!loaded.has(name)) {
    loaded.set(name, new Promise((resolve, reject) => {
      waiting.set(name, resolve);
      const failed = () => {
        loaded.delete(name);
        reject(new Error(`view/${name}.js cannot be read: build the page again with mobilerl view`));
      };
      const script = el("script", { src: `${name}.js`, onerror: failed, onload: () => script.remove() });
      document.head.append(script);
    }));
  }
  return loaded.get(name);
}

/** The run's index of trajectories, with references resolved. */
async function indexOf(run) {
  if (run.index) return run.index;
  const raw = await load(`${run.folder}/index`);
  if (run.index) return run.index;
  const rows = raw.rows.map(([source, index, task, outcome, reward, steps, group, device]) => ({
    run, source: raw.sources[source], index, task: raw.tasks[task], outcome, reward, steps, group, device: raw.devices[device] }));
  run.index = { ...raw, rows, groups: groupsOf(rows) };
  return run.index;
}

function groupsOf(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = `${row.source.name}/${row.group}`;
    if (!groups.has(key)) groups.set(key, { source: row.source, number: row.group, task: row.task, rows: [] });
    groups.get(key).rows.push(row);
  }
  return [...groups.values()];
}

/** Whether a trajectory is from training rather than an evaluation. */
function ofTraining(row) {
  return row.source.number !== null;
}

async function bodyOf(row) {
  const { name, part } = row.source;
  const bodies = await load(`${row.run.folder}/${name}-part${Math.floor(row.index / part)}`);
  return bodies[row.index % part];
}

/** The address of a screen. A server has a separate path for the screens of the other run. */
function screenAddress(row, digest) {
  const served = location.protocol !== "file:" && row.run !== RUNS[0];
  return `${served ? "against-run/" : row.run.root}${row.source.screens}/${digest}.png`;
}

function linkTo(row, step = 0) {
  return `#${row.run === RUNS[0] ? "" : "b:"}${row.source.name}/${row.index}/${step}`;
}

function groupLink(group) {
  return `#group/${group.rows[0].run === RUNS[0] ? "" : "b:"}${group.source.name}/${group.number}`;
}

/** Shows a loading error in `target`. */
function failure(target, error) {
  put(target, el("p", { class: "error" }, error.message));
}
