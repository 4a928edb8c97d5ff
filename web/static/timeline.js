// The page of events: newest first, with a picture of when they happened. Also lists of events for
// other pages.
import { el, svg, button, setAttr, setText, StateMark, states } from "./dom.js";
import { clean, clock, day, eventText, isProblem, moment, plural } from "./format.js";
import { problem, say } from "./messages.js";

const page = 300; // events that are asked for at first, and more each time
const mostLive = 5000; // then the oldest ones shown are dropped

// eventRow makes a list item. Without href the subject is not shown, as all are of one program.
export function eventRow(e, href) {
  const subject = e.instance ?? e.program ?? (e.kind === "socket" ? e.socket : "superd");
  const mark = e.kind === "state" && e.state in states ? new StateMark(e.state).node : null;
  const time = el("time", { datetime: e.at, title: moment(e.at) }, clock(e.at, true));
  return el("li", { class: `event${isProblem(e) ? " bad" : ""}${href ? "" : " alone"}`, test: "event",
    "data-kind": e.kind },
  time, el("span", { class: "kind", test: `event-kind-${e.kind}` }, e.kind),
  href ? (e.instance || e.program
    ? el("a", { class: "subject", href: href(e.instance ?? e.program) }, subject)
    : el("span", { class: "subject" }, subject)) : null,
  el("div", { class: "what" }, mark, eventText(e),
    e.output ? el("pre", {}, e.output.map(clean).join("\n")) : null));
}

// An EventList shows events, the newest first, under the days on which they happened.
export class EventList {
  constructor(href) {
    this.href = href;
    this.node = el("ol", { class: "events", test: "timeline", reversed: true });
    this.newest = null;
  }

  // set shows events, which are given in the order in which they happened.
  set(events) {
    const nodes = [];
    let last = null;
    for (let i = events.length - 1; i >= 0; i--) {
      const date = day(events[i].at);
      if (date !== last) nodes.push(this.#day(date));
      last = date;
      nodes.push(eventRow(events[i], this.href));
    }
    this.newest = events.length ? day(events.at(-1).at) : null;
    this.node.replaceChildren(...nodes);
  }

  add(e) {
    const date = day(e.at);
    const row = eventRow(e, this.href);
    if (date === this.newest) {
      this.node.firstElementChild.after(row);
    } else {
      this.node.prepend(this.#day(date), row);
      this.newest = date;
    }
    while (this.node.children.length > mostLive) this.node.lastElementChild.remove();
  }

  #day(date) {
    return el("li", { class: "day" }, el("h2", {}, date));
  }
}

// Bars shows how many events there were over time, and how many of them were problems.
class Bars {
  constructor() {
    this.picture = svg("svg", { viewBox: "0 0 600 44", preserveAspectRatio: "none",
      "aria-hidden": "true" });
    this.from = el("span", {});
    this.to = el("span", {});
    this.node = el("figure", { class: "bars", test: "event-bars" }, this.picture,
      el("figcaption", {}, this.from, this.to));
  }

  draw(events) {
    this.node.hidden = events.length < 2;
    if (this.node.hidden) return;
    const begin = Date.parse(events[0].at);
    const end = Math.max(Date.parse(events.at(-1).at), begin + 1000);
    const n = 100;
    const all = new Array(n).fill(0);
    const bad = new Array(n).fill(0);
    for (const e of events) {
      const i = Math.min(n - 1, Math.floor((Date.parse(e.at) - begin) / (end - begin) * n));
      all[i]++;
      if (isProblem(e)) bad[i]++;
    }
    const top = Math.max(...all);
    // The square root lets one event be seen beside a hundred.
    const height = (count) => (count ? 3 + 39 * Math.sqrt(count / top) : 0);
    const bar = (kind) => (count, i) => (count ? `M${i * 6} 44v${-height(count).toFixed(1)}h5v${
      height(count).toFixed(1)}z` : "");
    this.picture.replaceChildren(
      svg("path", { class: "all", d: all.map(bar()).join("") }),
      svg("path", { class: "bad", d: bad.map(bar()).join("") }));
    setText(this.from, moment(events[0].at));
    setText(this.to, moment(events.at(-1).at));
    setAttr(this.node, "aria-label", `${plural(events.length, "event")} from ${
      moment(events[0].at)} to ${moment(events.at(-1).at)}`);
  }
}

class Timeline {
  constructor(root, { api, store, router, keys }, route) {
    this.api = api;
    this.router = router;
    this.events = [];
    this.asked = page;
    this.kinds = new Set((route.params.get("kind") ?? "").split(",").filter(Boolean));
    this.text = route.params.get("q") ?? "";
    this.problems = route.params.has("problems");
    this.abort = new AbortController();
    this.#build(root);
    this.waiting = [];
    this.unwatch = store.watchEvents((e) => {
      this.waiting.push(e);
      this.timer ??= setTimeout(() => this.#live(), 200);
    });
    this.unbind = keys.bind({ "/": () => this.input.select() });
    this.#load();
  }

  close() {
    this.unwatch();
    this.unbind();
    clearTimeout(this.timer);
    this.abort.abort();
  }

  #build(root) {
    this.input = el("input", { type: "search", class: "filter", placeholder: "Filter  ( / )",
      "aria-label": "Filter by program or text", value: this.text, test: "event-filter",
      autocomplete: "off", spellcheck: "false", oninput: () => {
        this.text = this.input.value;
        this.#show(true);
      } });
    this.only = el("button", { type: "button", class: "chip problems", test: "event-problems",
      onclick: () => {
        this.problems = !this.problems;
        this.#show(true);
      } }, "problems");
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "Show only" }, this.only);
    this.chipOf = new Map();
    this.count = el("span", { class: "quiet count", test: "count" });
    this.bars = new Bars();
    this.list = new EventList((name) => this.router.href("program", name));
    this.older = button("Show older events", { test: "event-older", hidden: true, onclick: () => {
      this.asked += this.asked;
      this.#load();
    } });
    this.note = el("p", { class: "quiet", role: "status" }, "Loading …");
    root.append(el("div", { class: "toolbar" }, el("h1", { tabindex: -1 }, "Events"), this.count,
      this.input, this.chips), this.bars.node, this.list.node, this.note, this.older);
  }

  // load asks for the last events. The API counts from the end, so older ones are asked for with
  // all that came after them; the event log is bounded.
  async #load() {
    this.older.disabled = true;
    try {
      this.events = await this.api.lines("events", { lines: this.asked }, { signal: this.abort.signal });
      // What came by the stream meanwhile is newer.
      const last = this.events.at(-1)?.cursor ?? 0;
      this.waiting = this.waiting.filter((e) => e.cursor > last);
      this.older.hidden = this.events.length < this.asked;
      this.note.replaceChildren(this.older.hidden
        ? "These are all events that superd has kept." : "");
      this.#show(false);
    } catch (err) {
      if (err.name !== "AbortError") this.note.replaceChildren(problem(err));
    } finally {
      this.older.disabled = false;
    }
  }

  #live() {
    this.timer = undefined;
    const last = this.events.at(-1)?.cursor ?? 0;
    if (this.waiting.some((e) => e.cursor === 0)) { // superd has begun a new event log
      this.waiting = [];
      this.#load();
      return;
    }
    const fresh = this.waiting.filter((e) => e.cursor > last);
    this.waiting = [];
    if (fresh.length === 0) return;
    this.events.push(...fresh);
    if (this.events.length > mostLive * 2) this.events.splice(0, mostLive);
    for (const e of fresh) if (this.#matches(e)) this.list.add(e);
    this.#summary();
  }

  #matches(e) {
    if (this.problems && !isProblem(e)) return false;
    if (this.kinds.size && !this.kinds.has(e.kind)) return false;
    if (!this.text) return true;
    const text = `${e.instance ?? ""} ${e.program ?? ""} ${e.kind} ${eventText(e)} ${e.by ?? ""}`
      .toLowerCase();
    return this.text.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  }

  #show(byUser) {
    this.list.set(this.events.filter((e) => this.#matches(e)));
    this.#summary();
    if (byUser) {
      say(`${plural(this.shown, "event")} shown`);
      this.router.replace({ q: this.text, kind: [...this.kinds].join(","),
        problems: this.problems ? "1" : "" });
    }
  }

  #summary() {
    const matching = this.events.filter((e) => this.#matches(e));
    this.shown = matching.length;
    setText(this.count, this.shown === this.events.length ? String(this.shown)
      : `${this.shown} of ${this.events.length}`);
    this.bars.draw(matching);
    const counts = new Map();
    for (const { kind } of this.events) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    for (const kind of this.kinds) if (!counts.has(kind)) counts.set(kind, 0);
    for (const kind of [...counts.keys()].sort()) this.#chip(kind, counts.get(kind));
    setAttr(this.only, "aria-pressed", String(this.problems));
  }

  #chip(kind, n) {
    let chip = this.chipOf.get(kind);
    if (!chip) {
      chip = el("button", { type: "button", class: "chip", test: `kind-${kind}`, onclick: () => {
        if (!this.kinds.delete(kind)) this.kinds.add(kind);
        this.#show(true);
      } }, kind, el("b", {}));
      this.chipOf.set(kind, chip);
      this.chips.append(chip);
    }
    setText(chip.lastElementChild, String(n));
    setAttr(chip, "aria-pressed", String(this.kinds.has(kind)));
  }
}

export function showTimeline(root, context, route) {
  return new Timeline(root, context, route);
}
