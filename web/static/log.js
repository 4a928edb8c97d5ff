// The log pane: the newest output of one instance as it comes, at most 2,000 lines. Where lines are
// missing, as they came faster than they could be shown or sent, stands a gap mark.
import { el, button, setText, setAttr } from "./dom.js";
import { bytes, clean, clock, levelName, levelOf, plural } from "./format.js";
import { say } from "./messages.js";

const most = 2000; // lines in the pane, and lines that wait while it is paused
const atFirst = 500; // lines that are asked for
const hiddenFor = 60_000; // ms after which a hidden page gives its connection back

export class LogPane {
  constructor({ api, keys }, name) {
    this.api = api;
    this.name = name;
    this.lines = []; // {node, text, span, gap}, as in the pane
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
    cancelAnimationFrame(this.frame);
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
    this.pane = el("div", { class: "log", role: "log", "aria-live": "off", tabindex: 0,
      "aria-label": `Output of ${this.name}`, test: "log-pane", onscroll: () => this.#scrolled() });
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
    setText(this.status, this.connection || waiting || plural(this.lines.length, "line"));
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

  #schedule() {
    if (this.frame || this.paused) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.closed && !this.paused) this.#flush();
    });
  }

  #flush() {
    const fresh = document.createDocumentFragment();
    if (this.dropped) {
      this.queue.unshift({ gap: `${plural(this.dropped, "line")} not shown, as they came too fast` });
      this.dropped = 0;
    }
    const free = [];
    const excess = this.lines.length + this.queue.length - most;
    if (excess > 0) {
      for (const line of this.lines.splice(0, excess)) {
        line.node.remove();
        if (!line.gap) free.push(line);
      }
      this.queue.splice(0, Math.max(0, this.queue.length - most));
    }
    for (const data of this.queue) {
      const last = this.lines.at(-1);
      if (last?.partial && last.stream === data.stream && !data.gap && last.text.length < 65536) {
        // A long line comes in parts.
        last.partial = data.partial;
        last.text += clean(data.text);
        this.#mark(last);
        continue;
      }
      const line = data.gap ? this.#gap(data.gap) : this.#line(data, free.pop());
      this.lines.push(line);
      fresh.append(line.node);
    }
    this.queue = [];
    this.pane.append(fresh);
    if (this.following) this.#toEnd();
    this.#showStatus();
    if (this.needle) this.#count();
  }

  #gap(text) {
    return { gap: true, text, node: el("div", { class: "gap", test: "log-gap" }, text) };
  }

  // line fills the elements of a line that has left the pane, if there is one: at ten thousand
  // lines a second new ones would keep the garbage collector busy.
  #line(data, line) {
    if (!line) {
      line = { time: el("time", {}), span: el("span", {}) };
      line.node = el("div", { test: "log-line" }, line.time, line.span);
    }
    line.text = clean(data.text ?? "");
    line.partial = data.partial;
    line.stream = data.stream;
    const level = levelName(data.level) ?? levelOf(line.text);
    line.node.className = `line ${level ?? ""} ${data.stream ?? ""}`;
    line.time.textContent = data.time ? clock(data.time, true) : "";
    this.#mark(line);
    return line;
  }

  // mark shows where the line has what is searched.
  #mark(line) {
    line.found = false;
    if (!this.needle) {
      line.span.textContent = line.text;
      line.node.classList.remove("found");
      return;
    }
    const lower = line.text.toLowerCase();
    const parts = [];
    let from = 0;
    // A text whose lower case has another length would be cut at wrong places.
    if (lower.length === line.text.length) {
      for (let at = lower.indexOf(this.needle); at >= 0; at = lower.indexOf(this.needle, from)) {
        parts.push(line.text.slice(from, at),
          el("mark", {}, line.text.slice(at, at + this.needle.length)));
        from = at + this.needle.length;
      }
    }
    line.found = parts.length > 0;
    line.node.classList.toggle("found", line.found);
    line.span.replaceChildren(...parts, line.text.slice(from));
  }

  #find(text) {
    this.needle = text.toLowerCase();
    for (const line of this.lines) if (!line.gap) this.#mark(line);
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
    this.match?.node.classList.remove("current");
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
    this.pane.replaceChildren();
    this.#showStatus();
    this.#count();
  }

  #toEnd() {
    this.moving = true;
    this.pane.scrollTop = this.pane.scrollHeight;
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
    setAttr(this.followButton, "aria-pressed", String(on));
    if (on && !scrolled) this.#toEnd();
  }

  pause(on) {
    this.paused = on;
    setAttr(this.pauseButton, "aria-pressed", String(on));
    setText(this.pauseButton, on ? "Go on" : "Pause");
    if (!on) this.#schedule();
    this.#showStatus();
  }
}
