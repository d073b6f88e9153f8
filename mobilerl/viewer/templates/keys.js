// Keyboard shortcuts.

const KEYS = [
  ["1 … 8", "the views in the order of the bar"],
  ["j  k  or  ↓  ↑", "next and previous row: trajectory, task, device, group, lane"],
  ["←  →", "previous and next step"],
  ["Enter", "open the row or step"],
  ["n  p", "next and previous group"],
  ["t", "all steps of the trajectory as a table"],
  ["u", "up: from a trajectory to its group, from a group to all groups"],
  ["/", "search"],
  ["Esc", "leave the search, close this, or go up"],
  ["?", "this"],
];

function drawShortcuts() {
  const dialog = byId("shortcuts");
  put(dialog, el("h3", {}, "Keyboard"), el("table", {}, el("tbody", {}, KEYS.map(([keys, text]) =>
    el("tr", {}, el("td", { class: "mono" }, keys), el("td", {}, text))))),
  el("p", {}, el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close")));
  byId("help").addEventListener("click", () => dialog.showModal());
}

/** Handles a key for the view; returns whether it had a meaning. */
function act(view, key) {
  const number = "12345678".indexOf(key);
  if (number >= 0 && TABS[number]) location.hash = "#" + TABS[number][0];
  else if (key === "?") byId("shortcuts").showModal();
  else if (key === "/" && view.search) view.search.focus();
  else if ((key === "j" || key === "ArrowDown") && view.move) view.move(1);
  else if ((key === "k" || key === "ArrowUp") && view.move) view.move(-1);
  else if (key === "ArrowRight" && view.step) view.step(1);
  else if (key === "ArrowLeft" && view.step) view.step(-1);
  else if (key === "n" && view.turn) view.turn(1);
  else if (key === "p" && view.turn) view.turn(-1);
  else if (key === "Enter" && view.openCurrent) view.openCurrent();
  else if (key === "t" && view.toggle) view.toggle();
  else if ((key === "u" || key === "Escape") && view.up) view.up();
  else return false;
  return true;
}

function listen(current) {
  // What was clicked with a pointer gives the keys back to the view: a focused button would keep Enter.
  document.addEventListener("click", (event) => {
    if (event.detail && event.target.closest("button, summary")) document.activeElement.blur();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("shortcuts").open) return;
    const { tagName, type } = event.target;
    if (tagName === "INPUT" && type === "search") {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (tagName === "SELECT" && /^(Arrow.*|Enter)$/.test(event.key)) return; // what opens it and chooses in it
    // A focused link or button keeps its Enter.
    if (event.key === "Enter" && /^(A|BUTTON|SUMMARY)$/.test(event.target.tagName)) return;
    if (act(current(), event.key)) event.preventDefault();
  });
}
