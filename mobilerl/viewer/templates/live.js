// A served page shows what a run adds while it is open, and keeps filters, scrolling and folds as they are.

const EVERY_MS = 4000;
const places = new Map(); // name of a view that was dropped -> what it looked like

/** Asks for the version of the page again and again; one that is opened from disk stays as it is. */
function watchRun() {
  if (location.protocol === "file:") return;
  const look = async () => {
    if (!document.hidden) {
      try {
        if (await loadAgain("data/version") !== DATA.version) {
          Object.assign(DATA, await loadAgain("data/page"));
          RUNS.splice(0, RUNS.length, ...DATA.runs);
          loaded.clear();
          await redrawViews();
        }
        byId("live").textContent = "live";
      } catch {
        byId("live").textContent = "not connected";
      }
    }
    setTimeout(look, EVERY_MS);
  };
  setTimeout(look, EVERY_MS);
}

function loadAgain(name) {
  loaded.delete(name);
  return load(name);
}

/** Draws the current view again, and the others when they are next shown. A group, which does not change, stays. */
async function redrawViews() {
  const reading = place(location.hash.slice(1));
  const scrolled = scrollY, main = byId("main");
  for (const [name, section] of sections) {
    places.set(name, lookOf(section.node));
    section.stale = true;
  }
  if (reading.name === "groups" && reading.linked) return;
  main.style.minHeight = `${main.offsetHeight}px`; // so that there is room to scroll while folds are loaded again
  await arrive();
  scrollTo(0, scrolled);
  setTimeout(() => { main.style.minHeight = ""; }, 1000);
}

function lookOf(node) {
  const all = (selector, read) => [...node.querySelectorAll(selector)].map(read);
  return {
    fields: all("select, input[type=search]", (field) => field.value),
    chips: all(".chips", (group) => [...group.children].findIndex((chip) => chip.getAttribute("aria-pressed") === "true")),
    folds: all("details", (fold) => fold.open),
    scrolled: all(".vlist, .scroll, .thumbs", (list) => [list.scrollTop, list.scrollLeft]),
    focus: document.activeElement.matches("input[type=search]") && node.contains(document.activeElement),
  };
}

function restoreLook(node, look) {
  const each = (selector, values, apply) => node.querySelectorAll(selector).forEach((part, i) => {
    if (values[i] !== undefined) apply(part, values[i]);
  });
  each("select, input[type=search]", look.fields, (field, value) => {
    if (field.value === value) return;
    field.value = value;
    field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input"));
  });
  each(".chips", look.chips, (group, chosen) => {
    if (chosen > 0 && group.children[chosen]) group.children[chosen].click();
  });
  each("details", look.folds, (fold, open) => { fold.open = open; });
  each(".vlist, .scroll, .thumbs", look.scrolled, (list, [top, left]) => list.scrollTo(left, top));
  if (look.focus) node.querySelector("input[type=search]").focus();
}
