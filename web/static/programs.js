// The page of all programs: a table with filter, groups and sort, and commands for several.
import { el, button, setText, setAttr, states, StateMark } from "./dom.js";
import { Body, reasonText } from "./rows.js";
import { plural } from "./format.js";
import { say } from "./messages.js";

// Columns: what they sort by, and whether the largest comes first.
const columns = [
  { key: "name", title: "Name", by: (e) => e.status.name },
  { key: "state", title: "State", by: (e) => urgency.indexOf(e.status.state) },
  { key: "ready", title: "Ready", by: (e) => Number(e.status.ready) },
  { key: "health", title: "Health", by: (e) => ({ false: 0, null: 1, true: 2 }[e.status.healthy] ?? 1) },
  { key: "restarts", title: "Restarts", by: (e) => e.status.restarts ?? 0, descending: true },
  { key: "cpu", title: "CPU", by: (e) => e.share ?? -1, descending: true, live: true },
  { key: "memory", title: "Memory", by: (e) => e.status.rss_bytes ?? -1, descending: true, live: true },
  { key: "uptime", title: "Uptime", by: (e) => e.uptime(0) ?? Infinity },
  { key: "reason", title: "Reason", by: (e) => e.status.reason ?? "" },
];

// The order of states, those first that need attention.
const urgency = ["failed", "backoff", "starting", "stopping", "waiting", "running", "exited", "stopped"];

// isProblem reports whether an operator should look at an instance.
function isProblem(status) {
  return status.state === "failed" || status.state === "backoff" || status.healthy === false ||
    Boolean(status.log_outage) ||
    (status.state === "waiting" && status.reason_kind === "waits-for-dependency");
}

const noGroup = "(no group)"; // a name that no group can have
const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  return typeof a === "string" ? collator.compare(a, b) : a - b;
}

class Programs {
  constructor(root, context, route) {
    this.context = context;
    this.actions = context.actions;
    this.selected = new Set();
    this.folded = new Set();
    this.columns = columns.length + (this.actions.allowed ? 2 : 0);
    this.text = route.params.get("q") ?? "";
    this.states = new Set((route.params.get("state") ?? "").split(",").filter((s) => s in states));
    this.problems = route.params.has("problems");
    this.grouping = route.params.get("group") ?? "";
    const [sort = "name", direction] = (route.params.get("sort") ?? "").split(".");
    this.column = columns.find((c) => c.key === sort) ?? columns[0];
    this.descending = direction === "desc";
    this.current = -1;
    this.#build(root);
    this.body.measure();
    this.#list();
    this.unwatch = context.store.watch((changed, all, sampled) => this.#update(changed, all, sampled));
    this.timer = setInterval(() => this.body.tick(false), 1000);
    this.scroll = () => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.body.render());
    };
    this.resize = () => {
      this.body.measure();
      this.body.render();
    };
    addEventListener("scroll", this.scroll, { passive: true });
    addEventListener("resize", this.resize);
    this.unbind = context.keys.bind(this.#keys());
  }

  close() {
    this.unwatch();
    this.unbind();
    clearInterval(this.timer);
    cancelAnimationFrame(this.frame);
    removeEventListener("scroll", this.scroll);
    removeEventListener("resize", this.resize);
  }

  href(name) {
    return this.context.router.href("program", name);
  }

  #build(root) {
    this.input = el("input", { type: "search", class: "filter", placeholder: "Filter  ( / )",
      "aria-label": "Filter by name, group or reason", value: this.text, test: "filter",
      autocomplete: "off", spellcheck: "false",
      oninput: () => {
        this.text = this.input.value;
        this.#list(true);
      },
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === "ArrowDown") {
          event.preventDefault();
          this.#move(1);
        }
      } });
    this.chips = new Map([["problems", null], ...urgency.map((s) => [s, s])].map(([key, state]) => {
      const count = el("b", {});
      const chip = el("button", { type: "button", class: `chip ${key}`, test: `state-${key}`,
        onclick: () => this.#toggleState(key) },
      state ? new StateMark(state).node : null, state ?? "problems", count);
      return [key, { chip, count }];
    }));
    this.group = el("select", { id: "group-by", test: "group-by", onchange: () => {
      this.grouping = this.group.value;
      this.#list(true);
    } }, [["", "no groups"], ["group", "by group"], ["state", "by state"], ["program", "by program"]]
      .map(([value, label]) => el("option", { value, selected: value === this.grouping }, label)));
    this.sort = el("select", { id: "sort-by", test: "sort-by", onchange: () => {
      this.#sortBy(columns.find((c) => c.key === this.sort.value), false);
    } }, columns.map((c) => el("option", { value: c.key }, c.title)));
    this.count = el("span", { class: "quiet count", test: "count" });
    this.body = new Body(this);
    this.all = this.actions.allowed ? el("input", { type: "checkbox", "aria-label": "Select all shown",
      test: "select-all", onchange: () => this.#selectAll() }) : null;
    this.heads = columns.map((c) => {
      const head = el("th", { role: "columnheader", scope: "col", class: `c-${c.key}` },
        el("button", { type: "button", test: `column-${c.key}`,
          onclick: () => this.#sortBy(c, this.column === c) }, c.title,
        el("span", { class: "arrow", "aria-hidden": "true" })));
      return head;
    });
    this.table = el("table", { class: "programs", role: "table", test: "programs-table",
      "aria-label": "Programs" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row", "aria-rowindex": 1 },
      this.all ? el("th", { role: "columnheader", class: "c-select" }, this.all) : null, this.heads,
      this.all ? el("th", { role: "columnheader", class: "c-actions" },
        el("span", { class: "hidden" }, "Commands")) : null)),
    this.body.node);
    this.empty = el("p", { class: "empty quiet", hidden: true });
    this.selection = this.actions.allowed ? this.#selectionBar() : null;
    root.append(
      el("div", { class: "toolbar" },
        el("h1", { tabindex: -1 }, "Programs"), this.count, this.input,
        el("div", { class: "chips", role: "group", "aria-label": "Show only" },
          [...this.chips.values()].map(({ chip }) => chip)),
        el("span", { class: "space" }),
        el("label", { for: "sort-by", class: "only-narrow" }, "Sort"), this.sort,
        el("label", { for: "group-by", class: "hidden" }, "Groups"), this.group),
      this.table, this.empty);
    if (this.selection) root.append(this.selection);
  }

  #selectionBar() {
    this.selectionText = el("b", {});
    return el("div", { class: "selection", role: "region", "aria-label": "Selected programs",
      test: "selection", hidden: true }, this.selectionText,
    ["start", "stop", "restart", "reset-failed"].map((verb) =>
      this.actions.button(verb, () => [...this.selected].sort(collator.compare), { test: `bulk-${verb}` })),
    button("Clear", { test: "bulk-clear", class: "quiet-button", onclick: () => {
      this.selected.clear();
      this.#selectionChanged();
    } }));
  }

  #keys() {
    const command = (verb) => () => {
      const item = this.body.items[this.body.focused()];
      const names = this.selected.size ? [...this.selected] : item?.entry ? [item.entry.status.name] : [];
      if (names.length === 0) return false;
      this.actions.command(verb, names);
      return true;
    };
    return {
      "/": () => this.input.select(),
      j: () => this.#move(1), ArrowDown: () => this.#move(1),
      k: () => this.#move(-1), ArrowUp: () => this.#move(-1),
      Home: () => this.#moveTo(0), End: () => this.#moveTo(this.body.items.length - 1),
      s: command("start"), t: command("stop"), r: command("restart"),
      x: () => {
        const item = this.body.items[this.body.focused()];
        if (!item?.entry || !this.actions.allowed) return false;
        const { name } = item.entry.status;
        this.toggle(name, !this.selected.has(name));
        return true;
      },
    };
  }

  #move(by) {
    const focused = this.body.focused();
    const from = focused >= 0 ? focused : this.current;
    return this.#moveTo(from < 0 ? Math.max(this.body.first, 0) : from + by);
  }

  #moveTo(index) {
    const { items } = this.body;
    if (items.length === 0) return false;
    this.current = Math.min(Math.max(index, 0), items.length - 1);
    this.body.focus(this.current);
    return true;
  }

  #toggleState(key) {
    if (key === "problems") this.problems = !this.problems;
    else if (!this.states.delete(key)) this.states.add(key);
    this.#list(true);
  }

  #sortBy(column, reverse) {
    this.column = column;
    this.descending = reverse ? !this.descending : Boolean(column.descending);
    this.#list(true);
  }

  fold(name) {
    if (!this.folded.delete(name)) this.folded.add(name);
    this.#list();
  }

  toggle(name, on) {
    if (on) this.selected.add(name);
    else this.selected.delete(name);
    this.#selectionChanged();
  }

  #selectAll() {
    const names = this.body.items.filter((i) => i.entry).map((i) => i.entry.status.name);
    for (const name of names) {
      if (this.all.checked) this.selected.add(name);
      else this.selected.delete(name);
    }
    this.#selectionChanged();
  }

  #selectionChanged() {
    if (!this.selection) return;
    this.selection.hidden = this.selected.size === 0;
    setText(this.selectionText, `${plural(this.selected.size, "program")} selected`);
    this.all.checked = this.selected.size > 0;
    this.all.indeterminate = this.selected.size > 0 &&
      this.selected.size < this.body.items.filter((i) => i.entry).length;
    this.body.render();
  }

  #update(changed, all, sampled) {
    if (sampled) {
      this.body.tick(true);
      if (!this.column.live) return;
    }
    if (all) {
      let gone = false;
      for (const name of this.selected) {
        if (!this.context.store.instances.has(name)) gone = this.selected.delete(name);
      }
      if (gone) this.#selectionChanged();
    }
    this.#list();
  }

  #matches(status, words) {
    if (this.problems && !isProblem(status)) return false;
    if (this.states.size && !this.states.has(status.state)) return false;
    if (words.length === 0) return true;
    const text = `${status.name} ${(status.groups ?? []).join(" ")} ${status.state} ${reasonText(status)}`
      .toLowerCase();
    return words.every((word) => text.includes(word));
  }

  // list finds out which rows there are, in which order. byUser: the choice has changed.
  #list(byUser = false) {
    const { store } = this.context;
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    const counts = { problems: 0 };
    const entries = [];
    for (const entry of store.instances.values()) {
      const { status } = entry;
      counts[status.state] = (counts[status.state] ?? 0) + 1;
      if (isProblem(status)) counts.problems++;
      if (this.#matches(status, words)) entries.push(entry);
    }
    const { by } = this.column;
    const sign = this.descending ? -1 : 1;
    const keyed = entries.map((entry) => [by(entry), entry]);
    keyed.sort(([a, x], [b, y]) =>
      sign * compare(a, b) || collator.compare(x.status.name, y.status.name));
    this.body.setItems(this.#grouped(keyed.map(([, entry]) => entry)));
    setAttr(this.table, "aria-rowcount", String(this.body.items.length + 1));
    this.#showCounts(counts, entries.length);
    this.heads.forEach((head, i) => setAttr(head, "aria-sort", columns[i] !== this.column ? null
      : this.descending ? "descending" : "ascending"));
    this.sort.value = this.column.key;
    if (byUser) {
      this.current = -1;
      say(`${plural(entries.length, "program")} shown`);
      const natural = Boolean(this.column.descending) === this.descending;
      this.context.router.replace({ q: this.text, state: [...this.states].join(","),
        problems: this.problems ? "1" : "", group: this.grouping,
        sort: this.column.key === "name" && natural ? ""
          : `${this.column.key}.${this.descending ? "desc" : "asc"}` });
    }
  }

  #grouped(entries) {
    if (!this.grouping) return entries.map((entry) => ({ key: entry.status.name, entry }));
    const of = {
      group: ({ groups }) => (groups?.length ? groups : [noGroup]),
      state: ({ state }) => [state],
      program: ({ program }) => [program],
    }[this.grouping] ?? (() => ["all"]);
    const groups = new Map();
    for (const entry of entries) {
      for (const name of of(entry.status)) {
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(entry);
      }
    }
    const order = this.grouping === "state" ? (a, b) => urgency.indexOf(a) - urgency.indexOf(b)
      : (a, b) => (a === noGroup) - (b === noGroup) || collator.compare(a, b);
    const items = [];
    for (const name of [...groups.keys()].sort(order)) {
      const members = groups.get(name);
      const ready = members.filter((e) => e.status.ready).length;
      const problems = members.filter((e) => isProblem(e.status)).length;
      const folded = this.folded.has(name);
      items.push({ key: `\u0000${name}`, name, folded, note: `${plural(members.length, "program")}, ` +
        `${ready} ready${problems ? `, ${plural(problems, "problem")}` : ""}` });
      if (!folded) {
        items.push(...members.map((entry) => ({ key: `${name}\u0000${entry.status.name}`, entry })));
      }
    }
    return items;
  }

  #showCounts(counts, shown) {
    const { instances, complete } = this.context.store;
    setText(this.count, !complete ? "" : shown === instances.size ? String(shown)
      : `${shown} of ${instances.size}`);
    for (const [key, { chip, count }] of this.chips) {
      const on = key === "problems" ? this.problems : this.states.has(key);
      const n = counts[key] ?? 0;
      setText(count, String(n));
      chip.hidden = n === 0 && !on;
      setAttr(chip, "aria-pressed", String(on));
    }
    this.empty.hidden = shown > 0 || !complete;
    this.table.classList.toggle("none", shown === 0);
    setText(this.empty, instances.size === 0 ? "superd has no programs: its configuration defines none."
      : "No program matches the filter.");
  }
}

export function showPrograms(root, context, route) {
  return new Programs(root, context, route);
}
