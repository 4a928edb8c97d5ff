// Dialogs: the question before a command, and the list of keys.
import { el, button, iconButton } from "./dom.js";

let ids = 0;

// open shows a dialog until it is closed, and takes it out of the document then. The browser keeps
// the focus inside and gives it back to where it was.
function open(dialog) {
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    // The backdrop belongs to the dialog; what is inside it is in a box of its own.
    if (event.target === dialog) dialog.close();
  });
  dialog.showModal();
}

// field makes a labelled input: kind is number, text, checkbox or select (with options).
function field({ name, label, kind, value, hint, min, max, options }) {
  const id = `field-${++ids}`;
  const attributes = { id, name, test: `field-${name}`, "aria-describedby": hint ? `${id}-hint` : null };
  let input;
  if (kind === "select") {
    input = el("select", attributes, options.map((o) =>
      el("option", { value: o.value, selected: o.value === value }, o.label)));
  } else {
    input = el("input", { ...attributes, type: kind, min, max, required: kind === "number",
      value: kind === "checkbox" ? null : value, checked: kind === "checkbox" && value,
      autocomplete: "off", spellcheck: "false" });
  }
  const text = el("label", { for: id }, label);
  return {
    input,
    node: el("div", { class: `field ${kind}` }, kind === "checkbox" ? [input, text] : [text, input],
      hint ? el("p", { id: `${id}-hint`, class: "hint" }, hint) : null),
    read: () => (kind === "checkbox" ? input.checked : input.value),
  };
}

// ask shows a question and resolves to the values of its fields by name, or to null if the answer
// is no. body are nodes below the text; ready, a promise, holds the answer yes back until then.
export function ask({ title, text, body = [], fields = [], yes, danger = false }) {
  return new Promise((resolve) => {
    const made = fields.map((f) => [f.name, field(f)]);
    const id = `dialog-${++ids}`;
    let answer = null;
    const confirm = el("button", {
      type: "submit", class: danger ? "danger" : "primary", test: "confirm",
      autofocus: made.length === 0,
    }, yes);
    const form = el("form", { method: "dialog", onsubmit: (event) => {
      event.preventDefault();
      answer = Object.fromEntries(made.map(([name, f]) => [name, f.read()]));
      dialog.close();
    } },
    el("h2", { id }, title),
    text ? el("p", { id: `${id}-text` }, text) : null,
    body,
    made.map(([, f]) => f.node),
    el("div", { class: "buttons" },
      button("Cancel", { onclick: () => dialog.close(), test: "cancel" }), confirm));
    const dialog = el("dialog", { "aria-labelledby": id, class: "ask", test: "confirm-dialog",
      "aria-describedby": text ? `${id}-text` : null }, form);
    dialog.addEventListener("close", () => resolve(answer));
    open(dialog);
    if (made.length) made[0][1].input.focus();
  });
}

// names lists what a command is for, at most ten of them.
export function nameList(names, test) {
  const shown = names.length > 10 ? names.slice(0, 9) : names;
  return el("ul", { class: "names", test },
    shown.map((name) => el("li", {}, name)),
    names.length > shown.length ? el("li", { class: "quiet" }, `and ${names.length - shown.length} more`)
      : null);
}

const help = [
  ["Everywhere", [
    ["g p", "all programs"], ["g d", "dependencies"], ["g e", "events"], ["g s", "sockets"],
    ["?", "these keys"], ["Esc", "close a dialog, leave a field"],
  ]],
  ["All programs", [
    ["/", "filter"], ["j  k  ↓  ↑", "next, previous row"], ["Enter", "open the program"],
    ["x", "select the row"], ["s  t  r", "start, stop, restart"],
  ]],
  ["One program", [
    ["1 … 5", "log, events, runs, processes, configuration"], ["/", "search the log"],
    ["n  N", "next, previous match"], ["f", "follow the log"], ["p", "pause the log"],
    ["s  t  r", "start, stop, restart"],
  ]],
];

export function showHelp() {
  const id = `dialog-${++ids}`;
  const dialog = el("dialog", { class: "help", "aria-labelledby": id, test: "help-dialog" },
    el("div", { class: "inside" },
      el("div", { class: "title" }, el("h2", { id }, "Keys"),
        iconButton("close", "Close", { onclick: () => dialog.close(), autofocus: true })),
      el("div", { class: "columns" }, help.map(([heading, keys]) => el("section", {},
        el("h3", {}, heading),
        el("dl", {}, keys.map(([key, what]) => el("div", {},
          el("dt", {}, key.split("  ").map((k, i) => [i ? " " : null, el("kbd", {}, k)])),
          el("dd", {}, what)))))))));
  open(dialog);
}
