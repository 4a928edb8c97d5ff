// The log pane: the newest output of one instance as it comes, at most 2,000 lines. Where lines are
// missing, as they came faster than they could be shown or sent, stands a gap mark.
import { el, button, setText, setAttr } from "./dom.js";
import { bytes, clean, clock, levelName, levelOf, plural } from "./format.js";
import { say } from "./messages.js";

const most = 2000; // lines in the pane, and lines that wait while it is paused
const tail = 150; // lines of a fast log that are in the document
const atFirst = 500; // lines that are asked for
const hiddenFor = 60_000; // ms after which a hidden page gives its connection back

export class LogPane {
  constructor({ api, keys }, name) {
    this.api = api;
    this.name = name;
    this.lines = []; // {text, time, stream, level, partial, gap, found, node}; null: not shown
    this.free = []; // elements for lines
    this.gaps = 0;
    this.sparse = false; // only the end is in the document
    this.cost = 0; // of the last frame, in ms
    this.queue = [];
    this.dropped = 0;
    this.following = true;
    this.paused = false;
    this.needle = "";
    this.cursor = null;
    this.node = this.#build();
    this.unbind = keys.bind({
      "/": () => this.search.select(),
      n: () => this.#step(1), N: () => this.#step(-1),
      f: () => this.follow(!this.following), p: () => this.pause(!this.paused),
    });
    this.visibility = () => this.#visible();
    document.addEventListener("visibilitychange", this.visibility);
    this.#open();
  }

  close() {
    this.unbind();
    document.removeEventListener("visibilitychange", this.visibility);
    clearTimeout(this.hiding);
    clearTimeout(this.reopen);
    clearTimeout(this.frame);
    clearTimeout(this.calm);
    this.source?.close();
    this.source = null;
    this.closed = true;
  }

  #build() {
    const toggle = (text, test, on, f) => button(text, { test, class: "toggle", "aria-pressed": String(on),
      onclick: f });
    this.followButton = toggle("Follow", "log-follow", true, () => this.follow(!this.following));
    this.pauseButton = toggle("Pause", "log-pause", false, () => this.pause(!this.paused));
    this.wrapButton = toggle("Wrap", "log-wrap", false, () => this.#flip(this.wrapButton, "wrap"));
    this.onlyButton = toggle("Only matches", "log-only", false, () => this.#flip(this.onlyButton, "only"));
    this.search = el("input", { type: "search", placeholder: "Search  ( / )", "aria-label": "Search the log",
      test: "log-search", autocomplete: "off", spellcheck: "false",
      oninput: () => this.#find(this.search.value),
      onkeydown: (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.#step(event.shiftKey ? -1 : 1);
      } });
    this.matches = el("span", { class: "quiet", role: "status" });
    this.status = el("span", { class: "quiet", test: "log-status" }, "connecting");
    this.space = el("div", { "aria-hidden": "true" });
    this.pane = el("div", { class: "log", role: "log", "aria-live": "off", tabindex: 0,
      "aria-label": `Output of ${this.name}`, test: "log-pane",
      onscroll: () => this.#scrolled() }, this.space);
    return el("div", { class: "log-box" },
      el("div", { class: "toolbar log-tools" },
        this.search, this.matches, this.onlyButton, el("span", { class: "space" }), this.status,
        this.followButton, this.pauseButton, this.wrapButton,
        button("Clear", { test: "log-clear", class: "toggle", onclick: () => this.#clear() }),
        el("a", { class: "button", test: "log-download", download: true,
          href: this.api.url("/logs/download", { name: this.name, instance: this.name }) }, "Download")),
      this.pane);
  }

  #open() {
    const source = new EventSource(this.api.url("/logs/stream",
      { name: this.name, n: atFirst, cursor: this.cursor }));
    this.source = source;
    const on = (type, f) => source.addEventListener(type, (message) => {
      if (message.lastEventId) this.cursor = message.lastEventId;
      f(JSON.parse(message.data));
    });
    on("lines", (lines) => this.#add(lines));
    on("gap", (gap) => this.#add([{ gap: gap.skipped_bytes ? `${bytes(gap.skipped_bytes)} skipped`
      : gap.text ?? "output is missing here" }]));
    source.onopen = () => this.#state("");
    source.onerror = () => {
      if (source !== this.source) return;
      this.#state("no connection, trying again");
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.reopen);
      this.reopen = setTimeout(() => this.#open(), 2000);
    };
  }

  #visible() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.source?.close();
        this.source = null;
      }, hiddenFor);
    } else {
      if (!this.source && !this.closed) this.#open();
      this.#schedule();
    }
  }

  #state(text) {
    this.connection = text;
    this.#showStatus();
  }

  #showStatus() {
    const waiting = this.paused && this.queue.length
      ? `paused, ${plural(this.queue.length, "new line")}` : this.paused ? "paused" : "";
    setText(this.status, this.connection || waiting || plural(this.lines.length, "line") +
      (this.gaps ? `, ${plural(this.gaps, "gap")} so far` : ""));
  }

  // add queues lines for the next frame, or until the pane goes on. More than the pane holds would
  // be gone before anyone sees them, so the oldest ones go at once.
  #add(lines) {
    for (const line of lines) this.queue.push(line);
    if (this.queue.length > most) {
      const excess = this.queue.length - most;
      this.queue.splice(0, excess);
      this.dropped += excess;
    }
    if (this.paused) this.#showStatus();
    else this.#schedule();
  }

  // schedule has the queue shown in the next frame. After a frame that took long there is a pause, so
  // that the page can be used while a slow machine shows a fast log.
  #schedule() {
    if (this.frame || this.paused || this.queue.length === 0) return;
    this.frame = setTimeout(() => requestAnimationFrame(() => {
      this.frame = 0;
      if (this.closed || this.paused) return;
      const begin = performance.now();
      this.#flush();
      this.cost = performance.now() - begin;
    }), Math.min(1000, 3 * this.cost));
  }

  #flush() {
    const fast = this.queue.length > tail;
    const count = this.lines.length;
    if (this.dropped) {
      // In the place of the first line, as the pane may have no room for one more.
      const gap = `${plural(this.dropped + 1, "line")} not shown, as they came too fast`;
      this.queue.splice(0, 1, { gap });
      this.dropped = 0;
    }
    for (const data of this.queue) this.#take(data);
    this.queue = [];
    const gone = this.lines.splice(0, Math.max(0, this.lines.length - most));
    for (const line of gone) this.#release(line);
    if (this.following && (fast || this.sparse)) {
      this.#showTail(fast);
    } else {
      for (let i = Math.max(0, count - gone.length); i < this.lines.length; i++) {
        this.pane.append(this.#nodeOf(this.lines[i]));
      }
    }
    if (this.following) this.#toEnd();
    this.#showStatus();
    if (this.needle) this.#count();
  }

  // take adds a line. A long line comes in parts, which are put together again.
  #take(data) {
    const last = this.lines.at(-1);
    if (last?.partial && last.stream === data.stream && !data.gap && last.text.length < 65536) {
      last.partial = data.partial;
      last.text += clean(data.text);
      if (this.needle) this.#search(last);
      if (last.node) this.#mark(last);
      return;
    }
    const { gap, stream, partial, time, level } = data;
    if (gap) this.gaps++;
    const line = { gap, stream, partial, time, level, text: gap ?? clean(data.text ?? "") };
    if (this.needle) this.#search(line);
    this.lines.push(line);
  }

  // showTail keeps only the end of a fast log in the document, below the space of the rest: nobody
  // can read two thousand lines ten times a second, but the browser would lay them out.
  #showTail(fast) {
    if (fast) {
      clearTimeout(this.calm);
      this.calm = setTimeout(() => this.#showAll(), 2000 + 20 * this.cost);
    }
    this.sparse = true;
    const begin = Math.max(0, this.lines.length - tail);
    for (let i = 0; i < begin; i++) this.#release(this.lines[i]);
    const height = parseFloat(getComputedStyle(this.pane).lineHeight) || 19;
    this.space.style.height = `${begin * height}px`;
    for (let i = begin; i < this.lines.length; i++) {
      if (!this.lines[i].node) this.pane.append(this.#nodeOf(this.lines[i]));
    }
  }

  // showAll has all lines in the document again.
  #showAll() {
    clearTimeout(this.calm);
    if (!this.sparse) return;
    this.sparse = false;
    this.space.style.height = "0";
    this.pane.replaceChildren(this.space, ...this.lines.map((line) => line.node ?? this.#nodeOf(line)));
    if (this.following) this.#toEnd();
  }

  // release takes a line out of the document. Its elements serve for another one: at ten thousand
  // lines a second new ones would keep the garbage collector busy.
  #release(line) {
    if (!line.node) return;
    line.node.remove();
    if (!line.gap) this.free.push(line.node);
    if (this.free.length > tail) this.free.length = tail;
    line.node = null;
  }

  #nodeOf(line) {
    if (line.gap) {
      line.node = el("div", { class: "gap", test: "log-gap" }, line.text);
      return line.node;
    }
    line.node = this.free.pop() ?? el("div", { test: "log-line" }, el("time", {}), el("span", {}));
    const level = levelName(line.level) ?? levelOf(line.text);
    line.node.className = `line ${level ?? ""} ${line.stream ?? ""}`;
    line.node.firstElementChild.textContent = line.time ? clock(line.time, true) : "";
    this.#mark(line);
    return line.node;
  }

  // search finds out whether the line has what is searched. A text whose lower case has another
  // length would be cut at wrong places.
  #search(line) {
    const lower = line.text.toLowerCase();
    line.found = !line.gap && this.needle !== "" && lower.length === line.text.length &&
      lower.includes(this.needle);
  }

  // mark shows where in the line it is.
  #mark(line) {
    const span = line.node.lastElementChild;
    line.node.classList.toggle("found", Boolean(line.found));
    if (!line.found) {
      span.textContent = line.text;
      return;
    }
    const lower = line.text.toLowerCase();
    const parts = [];
    let from = 0;
    for (let at = lower.indexOf(this.needle); at >= 0; at = lower.indexOf(this.needle, from)) {
      parts.push(line.text.slice(from, at),
        el("mark", {}, line.text.slice(at, at + this.needle.length)));
      from = at + this.needle.length;
    }
    span.replaceChildren(...parts, line.text.slice(from));
  }

  #find(text) {
    this.needle = text.toLowerCase();
    this.#showAll();
    for (const line of this.lines) {
      if (line.gap) continue;
      this.#search(line);
      this.#mark(line);
    }
    this.pane.classList.toggle("searching", this.needle !== "");
    this.match = null;
    this.#count();
    if (this.following) this.#toEnd();
  }

  #count() {
    const n = this.lines.reduce((sum, line) => sum + (line.found ? 1 : 0), 0);
    setText(this.matches, this.needle ? plural(n, "match", "matches") : "");
  }

  // step shows the next match, from the one shown last or else from the end.
  #step(by) {
    const found = this.lines.filter((line) => line.found);
    if (found.length === 0) return;
    const at = found.indexOf(this.match);
    const next = at < 0 ? found.length - 1 : (at + by + found.length) % found.length;
    this.#showAll();
    this.match?.node?.classList.remove("current");
    this.match = found[next];
    this.match.node.classList.add("current");
    this.follow(false);
    this.match.node.scrollIntoView({ block: "center" });
    say(this.match.text);
  }

  #flip(toggle, name) {
    const on = this.pane.classList.toggle(name);
    setAttr(toggle, "aria-pressed", String(on));
    if (this.following) this.#toEnd();
  }

  #clear() {
    this.lines = [];
    this.queue = [];
    this.dropped = 0;
    this.gaps = 0;
    this.sparse = false;
    this.space.style.height = "0";
    this.pane.replaceChildren(this.space);
    this.#showStatus();
    this.#count();
  }

  #toEnd() {
    const before = this.pane.scrollTop;
    this.pane.scrollTop = this.pane.scrollHeight;
    this.moving = this.pane.scrollTop !== before; // otherwise no scroll event comes
  }

  // Whoever scrolls up wants to read, and follows again at the end.
  #scrolled() {
    if (this.moving) {
      this.moving = false;
      return;
    }
    const { scrollTop, scrollHeight, clientHeight } = this.pane;
    this.follow(scrollHeight - scrollTop - clientHeight < 30, true);
  }

  follow(on, scrolled = false) {
    this.following = on;
    if (!on) this.#showAll();
    setAttr(this.followButton, "aria-pressed", String(on));
    if (on && !scrolled) this.#toEnd();
  }

  pause(on) {
    this.paused = on;
    setAttr(this.pauseButton, "aria-pressed", String(on));
    setText(this.pauseButton, on ? "Go on" : "Pause");
    if (on) this.#showAll();
    else this.#schedule();
    this.#showStatus();
  }
}
