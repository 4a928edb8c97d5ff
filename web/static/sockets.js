// The page of sockets: what superd listens on for programs.
import { el, setText } from "./dom.js";
import { duration, none } from "./format.js";
import { problem } from "./messages.js";

const period = 3000; // ms between two looks

class Sockets {
  constructor(root, { api, router }) {
    this.api = api;
    this.router = router;
    this.abort = new AbortController();
    this.count = el("span", { class: "quiet count" });
    this.body = el("div", {}, el("p", { class: "quiet" }, "Loading …"));
    root.append(el("div", { class: "toolbar" }, el("h1", { tabindex: -1 }, "Sockets"), this.count),
      this.body);
    this.#load();
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  async #load() {
    try {
      this.#show(await this.api.get("sockets", {}, { signal: this.abort.signal }));
    } catch (err) {
      if (err.name === "AbortError") return;
      this.body.replaceChildren(problem(err));
    }
    this.timer = setTimeout(() => this.#load(), period);
  }

  #show(sockets) {
    // The table stays as it is while nothing has changed, so that a selection in it lasts.
    const text = JSON.stringify(sockets.map((s) => ({ ...s, retry_in_s: Math.round(s.retry_in_s ?? 0) })));
    if (text === this.text) return;
    this.text = text;
    setText(this.count, String(sockets.length));
    if (sockets.length === 0) {
      this.body.replaceChildren(el("p", { class: "quiet" }, "No program has sockets of superd. ",
        "A program gets one by the key ", el("code", {}, "sockets"), "."));
      return;
    }
    const titles = ["Socket", "Address", "State", "Waiting", "Connections", "Programs", "Open in"];
    this.body.replaceChildren(el("table", { class: "plain cards", role: "table", test: "sockets-table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, titles.map((t) =>
        el("th", { role: "columnheader", scope: "col" }, t)))),
      el("tbody", { role: "rowgroup" }, sockets.map((s) => this.#row(s, titles)))));
  }

  #row(s, titles) {
    const cells = [
      s.address,
      s.open ? "open" : [el("b", { class: "bad" }, "closed"), s.problem ? `: ${s.problem}` : "",
        s.retry_in_s === null ? "" : `; tried again in ${duration(s.retry_in_s)}`],
      s.waiting === null ? none : `${s.waiting}${s.backlog === null ? "" : ` of ${s.backlog}`}`,
      s.connections === null ? none : `${s.connections} of ${s.max_connections ?? "∞"}`,
      s.programs.map((p, i) => [i ? ", " : "", el("a", { href: this.router.href("program", p) }, p)]),
      s.holders.map((h) => `${h.pid} ${h.command}`).join(", ") || none,
    ];
    return el("tr", { role: "row", test: `socket-${s.socket}` },
      el("th", { role: "rowheader", scope: "row" }, s.socket),
      cells.map((cell, i) => el("td", { role: "cell", "data-title": titles[i + 1] },
        [cell].flat(3))));
  }
}

export function showSockets(root, context) {
  return new Sockets(root, context);
}
