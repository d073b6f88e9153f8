// What the model was given at a step: its prompt and the elements of the screen, loaded when one of them is opened.

/** Two folds that stay as they are from step to step. Returns show(step number, overlay of the phone) -> node. */
function givenPanel(row) {
  const open = { prompt: false, elements: false };
  return (step, overlay) => {
    const fold = (kind, title, content) => {
      const target = el("div", {});
      async function fill() {
        open[kind] = details.open;
        if (!details.open || target.firstChild) return;
        try {
          put(target, content((await inputOf(row))[step], overlay));
        } catch (error) {
          failure(target, error);
        }
      }
      const details = el("details", { class: "given", open: open[kind] ? "" : null, ontoggle: fill }, el("summary", {}, title), target);
      return details;
    };
    return [fold("prompt", "Prompt", promptText), fold("elements", "Elements of the screen", elementTable)];
  };
}

function promptText(given) {
  if (given.prompt === null) {
    return empty("The prompt is saved as token ids, and no tokenizer was found: the first checkpoint of the run has one.");
  }
  return el("pre", { class: "text" }, given.prompt);
}

/** The tree of elements; the one pointed at is outlined on the screen. */
function elementTable(given, overlay) {
  if (given.unreadable) return el("p", { class: "error" }, given.unreadable);
  if (!given.elements.length) return empty("The screen had no elements.");
  const outline = svg("g", {});
  overlay.append(outline);
  const width = overlay.viewBox.baseVal.width;
  const rows = given.elements.map((element) => el("tr", { tabindex: 0,
    onfocus: () => put(outline, elementBox(element, width)), onblur: () => put(outline),
    onmouseenter: () => put(outline, elementBox(element, width)), onmouseleave: () => put(outline) },
  el("td", { style: { "padding-left": `${0.5 + element.depth}rem` } }, el("b", {}, element.class || "node"),
    element.text ? ` “${element.text}”` : ""),
  el("td", { class: "muted" }, element.states.join(" ")), el("td", { class: "muted mono" }, element.box.join(" "))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["Element", "States", "Box (px)"].map((title) =>
    el("th", {}, title)))), el("tbody", {}, rows)));
}
