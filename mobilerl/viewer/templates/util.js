"use strict";
// Text from the run only ever becomes a text node or an attribute set here: nothing is parsed as HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SERIES = ["var(--s0)", "var(--s1)", "var(--s2)", "var(--s3)"];

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
    else if (value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

/** A number as short as it can be read: 0.00312, 4.2, 1200, 1.2e-7. */
function short(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size < 0.0001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function percent(value) {
  return value === null || value === undefined ? "–" : (100 * value).toFixed(1) + "%";
}

function duration(seconds) {
  if (seconds < 90) return short(Number(seconds.toFixed(1))) + " s";
  if (seconds < 5400) return (seconds / 60).toFixed(1) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}
