// Elements. Text gets into the page as text nodes and attributes only: names, reasons and output of
// programs are hostile.
//
// Tests find elements by data-test. Names of instances stand in them as they are.
//
//   login: login-form login-token login-submit login-error
//   header: nav-programs nav-graph nav-events nav-sockets nav-hosts host-switch connection theme
//     help-open reload-open logout
//   everywhere: main banner-down messages message-working message-ok message-error message-remedy
//     message-close help-dialog
//   dialogs: confirm-dialog confirm cancel field-scale field-signal field-canary reload-preview
//   programs: programs-table filter group-by sort-by state-STATE state-problems count column-KEY
//     select-all row-NAME, in it: select name state ready health restarts cpu memory uptime reason
//     action-start action-stop action-restart; group-GROUP; selection bulk-start bulk-stop
//     bulk-restart bulk-reset-failed bulk-clear
//   one program: program-page program-state reason why replica-NAME action-start action-stop
//     action-restart action-more action-reload action-signal action-reset-failed action-scale
//     action-rolling action-continue action-undo, tab-TAB and panel-TAB of log, events, runs,
//     processes and config
//   log: log-pane log-line log-gap log-follow log-pause log-search log-only log-wrap log-clear
//     log-download log-status
//   graph: graph node-PROGRAM edge-FROM-TO (TO needs FROM) blockers blocker-PROGRAM
//   events: timeline event event-kind-KIND event-filter event-problems kind-KIND event-older
//     event-bars count
//   others: sockets-table socket-NAME hosts-table host-NAME
//
// Only the rows near the visible part of a long table are in the document: a test with more than
// 150 programs filters first.

const SVG = "http://www.w3.org/2000/svg";

// apply sets attributes: a function is a listener for the event after "on", true an empty
// attribute, false, null and undefined none, and "test" is short for data-test.
function apply(node, attributes) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else if (key === "test") node.setAttribute("data-test", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
}

// el makes an HTML element. Children are nodes, strings, numbers and arrays of these; null,
// undefined and false are left out.
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  apply(node, attributes);
  node.append(...children.flat(Infinity).filter(present));
  return node;
}

// svg makes an SVG element, likewise.
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  apply(node, attributes);
  node.append(...children.flat(Infinity).filter(present));
  return node;
}

function present(child) {
  return child !== null && child !== undefined && child !== false;
}

// prose makes nodes of a message of superd: what it puts in backquotes is code.
export function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

// setText writes a text only when it differs, so that an unchanged cell costs no layout.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// setAttr sets or, for null, removes an attribute when it differs.
export function setAttr(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

// Icons of buttons, as paths in a square of 16 units. They are decoration: the button has a name.
const icons = {
  start: "M5 3.2v9.6L12.6 8z",
  stop: "M4 4h8v8H4z",
  restart: "M12.7 6.5A5 5 0 1 0 13 9M13 3.2v3.5H9.5",
  theme: "M8 2.2a5.8 5.8 0 1 0 0 11.6zM8 2.2a5.8 5.8 0 0 1 0 11.6",
  close: "M4 4l8 8M12 4l-8 8",
  out: "M9.5 3H3.5v10h6M7 8h7M11.5 5.5L14 8l-2.5 2.5",
};
const filled = new Set(["start", "stop"]);

export function icon(name) {
  return svg("svg", {
    viewBox: "0 0 16 16", class: filled.has(name) ? "icon fill" : "icon", "aria-hidden": "true",
  }, svg("path", { d: icons[name] }));
}

// States have a shape, a text and a colour, so that none of them depends on the colour. The tone is
// the class that has the colour.
export const states = {
  running: { tone: "good", d: "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1z" },
  starting: { tone: "busy", d: "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zM6 2.6a3.4 3.4 0 0 0 0 6.8z" },
  waiting: {
    tone: "wait",
    d: "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zM6 2.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 0 0 0-7z",
  },
  stopping: { tone: "busy", d: "M1 2h10L6 11z" },
  backoff: { tone: "warn", d: "M6 .8L11.6 11H.4z" },
  failed: { tone: "bad", d: "M2.7 1L6 4.3 9.3 1 11 2.7 7.7 6 11 9.3 9.3 11 6 7.7 2.7 11 1 9.3 4.3 6 1 2.7z" },
  exited: { tone: "idle", d: "M1 6.2L2.6 4.7 4.7 6.8 9.4 2 11 3.6 4.7 10z" },
  stopped: { tone: "idle", d: "M2 2h8v8H2z" },
};

// StateMark is the shape of a state, which can be changed in place.
export class StateMark {
  constructor(state) {
    this.path = svg("path", { "fill-rule": "evenodd" });
    this.node = svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, this.path);
    this.set(state);
  }

  set(state) {
    const known = states[state] ?? states.stopped;
    setAttr(this.path, "d", known.d);
    setAttr(this.node, "class", `shape ${known.tone}`);
  }
}

// button makes a button with a text, or with an icon whose name is the label.
export function button(text, attributes, iconName) {
  return el("button", { type: "button", ...attributes }, iconName ? icon(iconName) : null, text);
}

export function iconButton(name, label, attributes) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label,
    ...attributes }, icon(name));
}
