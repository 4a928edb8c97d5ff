// The rows of the table of programs: only those near the visible part are in the document, so that
// a thousand programs cost as much as fifty, and of these only cells that differ are written.
import { el, iconButton, setText, setAttr, StateMark } from "./dom.js";
import { Spark } from "./spark.js";
import { bytes, clean, duration, none, percent } from "./format.js";

const unwindowed = 150; // up to so many items all are in the document
const margin = 600; // px above and below the visible part

// isActive reports whether a stop would have something to do.
export function isActive(status) {
  return !["stopped", "exited", "failed"].includes(status.state);
}

export function readyText(status) {
  if (status.ready) return "ready";
  return status.pid ? "not yet" : none;
}

export function healthText(status) {
  if (status.healthy === null || status.healthy === undefined) return none;
  return status.healthy ? "healthy" : "unhealthy";
}

// reasonText is why the instance is in its state, what it says of itself, or what superd is doing.
export function reasonText(status) {
  const parts = [];
  if (status.rolling) {
    const { stage, restarted, instances, failure } = status.rolling;
    const waits = { canary: ", waits after the canary", held: ", held" }[stage] ?? "";
    parts.push(`rolling restart: ${restarted} of ${instances} restarted${waits}` +
      (failure ? ` (${failure})` : ""));
  }
  if (status.log_outage) parts.push(`output is not logged: ${status.log_outage.reason}`);
  if (status.healthy === false && status.health_check?.reason) {
    parts.push(`unhealthy: ${status.health_check.reason}`);
  }
  if (status.status_text && status.state === "running") parts.push(status.status_text);
  if (parts.length === 0 && status.reason) parts.push(status.reason);
  return clean(parts.join("; "));
}

// A Row shows one instance. page has what all rows share: actions, href, selected, toggle.
class Row {
  constructor(page) {
    this.page = page;
    const cell = (key, ...children) => el("td", { role: "cell", class: `c-${key}`, test: key },
      ...children);
    this.mark = new StateMark("stopped");
    this.link = el("a", {});
    this.state = el("span", {});
    this.ready = cell("ready");
    this.health = cell("health");
    this.restarts = cell("restarts");
    this.cpu = el("span", { class: "figure" });
    this.memory = el("span", { class: "figure" });
    this.cpuSpark = new Spark("cpu", 0.1);
    this.memorySpark = new Spark("memory", 1 << 20);
    this.uptime = cell("uptime");
    this.reason = cell("reason");
    const { actions } = page;
    if (actions.allowed) {
      this.box = el("input", { type: "checkbox", test: "select",
        onchange: () => page.toggle(this.name, this.box.checked) });
      const act = (verb) => iconButton(verb, actions.label(verb), { test: `action-${verb}`,
        onclick: () => actions.command(verb, [this.name]) });
      this.start = act("start");
      this.stop = act("stop");
      this.restart = act("restart");
    }
    this.node = el("tr", { role: "row" },
      this.box ? el("td", { role: "cell", class: "c-select" }, this.box) : null,
      el("th", { scope: "row", role: "rowheader", class: "c-name", test: "name" }, this.link),
      cell("state", this.mark.node, this.state), this.ready, this.health, this.restarts,
      cell("cpu", this.cpuSpark.node, this.cpu), cell("memory", this.memorySpark.node, this.memory),
      this.uptime, this.reason,
      this.box ? el("td", { role: "cell", class: "c-actions" },
        el("span", {}, this.start, this.stop, this.restart)) : null);
  }

  show(item, index) {
    const { entry } = item;
    const { status } = entry;
    if (this.name !== status.name) {
      this.name = status.name;
      setText(this.link, status.name);
      this.link.href = this.page.href(status.name);
      this.node.setAttribute("data-test", `row-${status.name}`);
      if (this.box) {
        this.box.setAttribute("aria-label", `Select ${status.name}`);
        for (const [verb, node] of [["start", this.start], ["stop", this.stop],
          ["restart", this.restart]]) {
          node.setAttribute("aria-label", `${this.page.actions.label(verb)} ${status.name}`);
        }
      }
    }
    setAttr(this.node, "aria-rowindex", String(index + 2));
    this.mark.set(status.state);
    setText(this.state, status.state);
    setText(this.ready, readyText(status));
    setAttr(this.ready, "class", status.ready ? "c-ready good" : "c-ready");
    setText(this.health, healthText(status));
    const tone = { true: " good", false: " bad" }[status.healthy] ?? "";
    setAttr(this.health, "class", `c-health${tone}`);
    setText(this.restarts, String(status.restarts ?? 0));
    setAttr(this.restarts, "class", status.restarts ? "c-restarts some" : "c-restarts");
    const reason = reasonText(status);
    if (this.reason.textContent !== reason) {
      this.reason.textContent = reason;
      this.reason.title = reason;
    }
    if (this.box) {
      const selected = this.page.selected.has(status.name);
      this.box.checked = selected;
      this.node.classList.toggle("selected", selected);
      const active = isActive(status);
      this.start.hidden = active;
      this.stop.hidden = !active;
    }
    this.node.classList.toggle("trouble", status.state === "failed" || status.healthy === false);
    this.figures(entry);
  }

  // figures shows what changes with time alone.
  figures(entry) {
    setText(this.uptime, duration(entry.uptime(performance.now()), true));
    setText(this.cpu, percent(entry.share));
    setText(this.memory, bytes(entry.status.rss_bytes));
  }

  curves(entry) {
    this.cpuSpark.draw(entry.cpu);
    this.memorySpark.draw(entry.rss);
  }
}

// A GroupRow is the heading of a group.
class GroupRow {
  constructor(page) {
    this.page = page;
    this.button = el("button", { type: "button", class: "fold",
      onclick: () => page.fold(this.name) });
    this.note = el("span", { class: "quiet" });
    this.node = el("tr", { role: "row", class: "group" },
      el("th", { role: "rowheader", scope: "rowgroup", colspan: page.columns }, this.button, this.note));
  }

  show(item, index) {
    this.name = item.name;
    setAttr(this.node, "data-test", `group-${item.name}`);
    setAttr(this.node, "aria-rowindex", String(index + 2));
    setAttr(this.button, "aria-expanded", String(!item.folded));
    setText(this.button, item.name);
    setText(this.note, item.note);
  }

  figures() {}
  curves() {}
}

// Body is the body of the table. An item is {key, entry} of a row, or {key, name, note, folded} of
// a group.
export class Body {
  constructor(page) {
    this.page = page;
    this.rows = new Map();
    this.free = []; // rows that are not in the document
    this.items = [];
    const spacer = () => el("tr", { class: "spacer", "aria-hidden": "true" },
      el("td", { colspan: page.columns }));
    this.above = spacer();
    this.below = spacer();
    this.node = el("tbody", { role: "rowgroup" }, this.above, this.below);
    this.measure();
  }

  // measure reads the heights of rows, which depend on the width of the page.
  measure() {
    const style = getComputedStyle(this.node.isConnected ? this.node : document.documentElement);
    this.rowHeight = parseFloat(style.getPropertyValue("--row-height")) || 34;
    this.groupHeight = parseFloat(style.getPropertyValue("--group-height")) || 34;
    this.#place();
  }

  setItems(items) {
    this.items = items;
    this.#place();
    this.render();
  }

  // place computes where each item begins.
  #place() {
    let y = 0;
    this.tops = new Float64Array(this.items.length + 1);
    this.items.forEach((item, i) => {
      this.tops[i] = y;
      y += item.entry ? this.rowHeight : this.groupHeight;
    });
    this.tops[this.items.length] = y;
  }

  // at returns the index of the item at y.
  #at(y) {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  render() {
    let first = 0;
    let end = this.items.length;
    if (end > unwindowed) {
      const top = this.node.getBoundingClientRect().top;
      first = this.#at(-top - margin);
      end = Math.min(this.#at(innerHeight - top + margin) + 1, end);
    }
    this.first = first;
    this.above.firstElementChild.style.height = `${this.tops[first]}px`;
    this.below.firstElementChild.style.height =
      `${this.tops[this.items.length] - this.tops[end]}px`;
    const shown = new Map();
    let place = this.above;
    for (let i = first; i < end; i++) {
      const item = this.items[i];
      let row = this.rows.get(item.key);
      const fresh = !row;
      if (fresh) row = item.entry ? this.free.pop() ?? new Row(this.page) : new GroupRow(this.page);
      row.entry = item.entry;
      row.show(item, i);
      if (fresh && item.entry) row.curves(item.entry);
      // A node that is moved loses the focus, so those in place stay.
      if (place.nextSibling !== row.node) place.after(row.node);
      place = row.node;
      shown.set(item.key, row);
    }
    for (const [key, row] of this.rows) {
      if (shown.has(key)) continue;
      row.node.remove();
      // While the page is scrolled as many rows come as go.
      if (row.entry && this.free.length < 80) this.free.push(row);
    }
    this.rows = shown;
  }

  // tick shows what changes with time; curves only when they have a new sample.
  tick(curves) {
    for (const row of this.rows.values()) {
      if (!row.entry) continue;
      row.figures(row.entry);
      if (curves) row.curves(row.entry);
    }
  }

  // focus shows the item and moves the focus to it.
  focus(index) {
    const box = this.node.getBoundingClientRect();
    const top = box.top + this.tops[index];
    const sticky = 110; // header and heading of the table
    if (top < sticky) scrollBy(0, top - sticky);
    else if (top + this.rowHeight > innerHeight - 60) scrollBy(0, top + this.rowHeight - innerHeight + 60);
    this.render();
    const row = this.rows.get(this.items[index].key);
    (row?.link ?? row?.button)?.focus({ preventScroll: true });
  }

  // focused returns the index of the item that has the focus, or -1.
  focused() {
    const node = document.activeElement?.closest?.("tr");
    if (!node || node.parentNode !== this.node) return -1;
    return this.items.findIndex((item) => this.rows.get(item.key)?.node === node);
  }
}
