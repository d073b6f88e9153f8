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

/** What the run's replay buffer held at the newest checkpoint: `iteration` and its `rows`, none without a buffer. */
async function replayOf(run) {
  const raw = await load(`${run.folder}/replay`);
  return { iteration: raw.iteration, rows: (raw.rows || []).map(([task, outcome, reward, steps, group, device], index) => {
    const [iteration, advantage, rarity] = raw.entries[index];
    return { run, source: raw.source, index, task: raw.tasks[task], outcome, reward, steps, group, device,
      iteration, advantage, rarity, age: raw.iteration - iteration };
  }) };
}

async function rowOf(linked) {
  const { rows } = isReplay(linked.source) ? await replayOf(linked.run) : await indexOf(linked.run);
  return rows.find((row) => row.source.name === linked.source && row.index === linked.index);
}

function isReplay(name) {
  return name.startsWith("replay-");
}

async function partOf(row, kind) {
  const { name, part } = row.source;
  const found = await load(`${row.run.folder}/${name}-${kind}${Math.floor(row.index / part)}`);
  return found[row.index % part];
}

const bodyOf = (row) => partOf(row, "part");
const inputOf = (row) => partOf(row, "input");

/** The address of a screen. A server has a separate path for the screens of every other run. */
function screenAddress(row, digest) {
  const served = location.protocol !== "file:" && row.run.number;
  return `${served ? row.run.folder + "/" : row.run.root}${row.source.screens}/${digest}.png`;
}

/** How links name a run: nothing for the first, then b: c: d:. */
function runPrefix(run) {
  return run.number ? "abcd"[run.number] + ":" : "";
}

function linkTo(row, step = 0) {
  return `#${runPrefix(row.run)}${row.source.name}/${row.index}/${step}`;
}

function groupLink(group) {
  return `#group/${runPrefix(group.rows[0].run)}${group.source.name}/${group.number}`;
}

/** Shows a loading error in `target`. */
function failure(target, error) {
  put(target, el("p", { class: "error" }, error.message));
}
