"use strict";
// Text from the run only ever becomes a text node or an attribute set here: nothing is parsed as HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUN_COLORS = ["var(--r0)", "var(--r1)", "var(--r2)", "var(--r3)"];
const PARTS = ["var(--part-0)", "var(--part-1)", "var(--part-2)", "var(--part-3)"]; // of a whole, such as the time of a step

/** An element: el("p", {class: "x", onclick: f}, "text", child, ...). Null children are skipped. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  // One by one: a call with 100,000 arguments throws.
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

/** Leaves out null and false, which `replaceChildren` would show as words. */
function put(target, ...children) {
  target.replaceChildren();
  return fill(target, null, children);
}

/** A select that gives the keys back to the view once an option was chosen with a mouse or a finger. */
function choice(label, options, changed) {
  let pointed = false;
  const made = el("select", { "aria-label": label, onpointerdown: () => { pointed = true; }, onkeydown: () => { pointed = false; },
    onchange: () => { if (pointed) made.blur(); changed(); } },
  options.map(([value, text]) => el("option", { value }, text)));
  return made;
}

/** Buttons of which one is pressed; `options` are [value, label, count]. Returns {node, value, set(value)}. */
function chips(label, options, changed) {
  const buttons = options.map(([value, text, count]) => el("button",
    { type: "button", class: "chip " + (value || ""), onclick: () => { set(value); changed(); } },
    text, count === undefined ? null : el("span", { class: "count" }, String(count))));
  const made = { node: el("div", { class: "chips", role: "group", "aria-label": label }, buttons), value: "", set };
  function set(value) {
    made.value = value;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(options[i][0] === value)));
  }
  set(options[0][0]);
  return made;
}

function empty(text) {
  return el("p", { class: "empty" }, text);
}
