// Results and errors, in the corner of the page and in regions that screen readers read aloud.
import { el, iconButton, prose, setText } from "./dom.js";

const shownFor = 7000; // ms; errors stay until they are closed
const most = 5;

function close(node) {
  node.remove();
}

function add(region, node) {
  const place = document.getElementById(region);
  while (place.children.length >= most) place.firstElementChild.remove();
  place.append(node);
}

// working shows that a command is under way, and returns what ends that.
export function working(text) {
  const node = el("div", { class: "message working", test: "message-working" },
    el("span", { class: "spinner", "aria-hidden": "true" }), el("p", {}, text));
  add("results", node);
  return () => node.remove();
}

// done reports a success.
export function done(title, lines = []) {
  const node = el("div", { class: "message ok", test: "message-ok" },
    el("div", {}, el("p", { class: "message-title" }, title),
      lines.map((line) => el("p", {}, line))),
    iconButton("close", "Close the message", { onclick: () => close(node), test: "message-close" }));
  add("results", node);
  let timer = setTimeout(() => close(node), shownFor);
  // Whoever reads it may take the time.
  node.addEventListener("pointerenter", () => clearTimeout(timer));
  node.addEventListener("pointerleave", () => {
    timer = setTimeout(() => close(node), shownFor);
  });
}

// failed reports what has not worked: lines say what, remedy what helps, output is of a command.
export function failed(title, { lines = [], remedy = "", output = [] } = {}) {
  const node = el("div", { class: "message bad", test: "message-error" },
    el("div", {}, el("p", { class: "message-title" }, title),
      lines.map((line) => el("p", {}, prose(line))),
      output.length ? el("pre", {}, output.join("\n")) : null,
      remedy ? el("p", { class: "remedy", test: "message-remedy" }, prose(remedy)) : null),
    iconButton("close", "Close the message", { onclick: () => close(node), test: "message-close" }));
  add("errors", node);
}

// failure reports an error of a request.
export function failure(title, err) {
  const lines = err.mistakes?.length
    ? err.mistakes.map((m) => [m.file, m.line, m.column].filter(Boolean).join(":") +
      `: ${m.key ? `${m.key}: ` : ""}${m.message}`)
    : [err.message];
  failed(title, { lines, remedy: err.remedy });
}

// problem is the same inside a page, where something should have been shown.
export function problem(err) {
  return el("div", { class: "problem", role: "alert" }, el("p", {}, prose(err.message)),
    err.remedy ? el("p", { class: "remedy" }, prose(err.remedy)) : null);
}

// say tells screen readers what is seen by others, such as how many rows a filter has left.
let speaker;
export function say(text) {
  if (!speaker) {
    speaker = el("div", { class: "hidden", role: "status" });
    document.body.append(speaker);
  }
  setText(speaker, text);
}
