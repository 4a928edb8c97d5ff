// The page of one program: what it is doing and why, commands, and in tabs its log, events, runs,
// processes and configuration.
import { el, button, setAttr, setText, StateMark } from "./dom.js";
import { healthText, isActive, readyText, reasonText } from "./rows.js";
import { bytes, clean, duration, exitText, moment, none, percent, plural } from "./format.js";
import { Spark } from "./spark.js";
import { tabs } from "./tabs.js";
import { problem } from "./messages.js";

const collator = new Intl.Collator("en", { numeric: true });

class Program {
  constructor(root, context, route) {
    this.context = context;
    this.root = root;
    this.route = route;
    this.tab = route.params.get("tab") ?? "log";
    this.abort = new AbortController();
    this.unwatch = context.store.watch((changed, all, sampled) => this.#update(all, sampled));
    this.unwatchEvents = context.store.watchEvents((e) => this.#event(e));
    this.timer = setInterval(() => this.#figures(), 1000);
    // The explanation names times that have passed.
    this.asker = setInterval(() => this.name && !document.hidden && this.#why(), 15_000);
    const act = (verb) => () => {
      if (!this.name || !context.actions.allowed) return false;
      context.actions.command(verb, [this.name]);
      return true;
    };
    this.unbind = context.keys.bind({
      s: act("start"), t: act("stop"), r: act("restart"),
      ...Object.fromEntries(Object.keys(tabs).map((key, i) => [String(i + 1), () => this.#open(key)])),
    });
    this.#begin();
  }

  close() {
    this.unwatch();
    this.unwatchEvents();
    this.unbind();
    clearInterval(this.timer);
    clearInterval(this.asker);
    clearTimeout(this.asking);
    this.abort.abort();
    this.panel?.close?.();
  }

  // begin shows the instance of the route, or the first one of the program of that name.
  #begin() {
    const { store, router } = this.context;
    const { name } = this.route;
    const statuses = [...store.instances.values()].map((e) => e.status);
    const status = statuses.find((s) => s.name === name) ?? statuses.filter((s) => s.program === name)
      .sort((a, b) => collator.compare(a.name, b.name))[0];
    if (!status) {
      const heading = el("h1", { tabindex: -1 }, name);
      this.root.replaceChildren(heading, el("p", { class: "quiet", role: "status" }, store.complete
        ? "There is no program of this name, or it has no instances now. " : "Loading …",
      store.complete ? el("a", { href: router.href("programs") }, "All programs") : null));
      return;
    }
    this.name = status.name;
    this.program = status.program;
    this.#build(status);
    this.#update(true, true);
    this.#open(this.tab in tabs ? this.tab : "log", true);
    this.#why();
  }

  #build(status) {
    const { router, actions } = this.context;
    this.mark = new StateMark(status.state);
    this.state = el("span", { class: "badge", test: "program-state" });
    this.replicas = el("nav", { class: "replicas", "aria-label": "Instances of the program" });
    this.reason = el("p", { class: "reason", test: "reason" });
    this.why = el("pre", { class: "why", test: "why", tabindex: 0, role: "group", "aria-label": "Why" });
    this.facts = new Map();
    this.cpuSpark = new Spark("cpu", 0.1);
    this.memorySpark = new Spark("memory", 1 << 20);
    this.tabList = el("div", { class: "tabs", role: "tablist", "aria-label": "Details",
      onkeydown: (event) => this.#tabKey(event) });
    this.tabButtons = Object.entries(tabs).map(([key, { title }]) => el("button", {
      type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "panel", test: `tab-${key}`,
      onclick: () => this.#open(key) }, title));
    this.tabList.append(...this.tabButtons);
    this.place = el("div", { id: "panel", role: "tabpanel", class: "panel" });
    this.root.replaceChildren(el("article", { class: "program", test: "program-page" },
      el("div", { class: "head" },
        el("p", { class: "crumb" }, el("a", { href: router.href("programs") }, "Programs"), " / ",
          el("a", { href: router.href("graph", "", { focus: status.program }) }, "dependencies")),
        el("div", { class: "title" }, this.mark.node, el("h1", { tabindex: -1 }, status.name), this.state),
        this.replicas,
        actions.allowed ? this.#commands() : null),
      this.reason,
      el("div", { class: "overview" },
        el("dl", { class: "facts" }, this.#fact("ready", "Ready"), this.#fact("health", "Health"),
          this.#fact("pid", "Pid"), this.#fact("uptime", "Uptime"), this.#fact("restarts", "Restarts"),
          this.#fact("cpu", "CPU", this.cpuSpark.node),
          this.#fact("memory", "Memory", this.memorySpark.node),
          this.#fact("since", "In this state since"), this.#fact("exit", "Last exit"),
          this.#fact("next", "Next start"), this.#fact("groups", "Groups"), this.#fact("log", "Log")),
        el("section", { class: "why-box", "aria-label": "Why" }, el("h2", {}, "Why"), this.why)),
      this.tabList, this.place));
  }

  #fact(key, title, curve) {
    const value = el("span", {});
    const node = el("div", { class: `fact f-${key}` }, el("dt", {}, title), el("dd", {}, value, curve));
    this.facts.set(key, { node, value });
    return node;
  }

  #commands() {
    const { actions } = this.context;
    const one = () => [this.name];
    const all = () => [this.program];
    this.startButton = actions.button("start", one);
    this.stopButton = actions.button("stop", one);
    this.rollButtons = el("span", { class: "rolling", hidden: true },
      actions.button("continue", all), actions.button("undo", all));
    return el("div", { class: "commands", role: "group", "aria-label": "Commands" },
      this.startButton, this.stopButton, actions.button("restart", one), this.rollButtons,
      el("details", { class: "menu" }, el("summary", { test: "action-more" }, "More"),
        el("div", { class: "menu-list", onclick: (event) => {
          event.currentTarget.parentElement.open = false;
        } },
        actions.button("reload", one),
        button("Signal …", { test: "action-signal", onclick: () => actions.signal(one()) }),
        actions.button("reset-failed", one),
        button("Scale …", { test: "action-scale", onclick: () =>
          actions.scale(this.program, this.#siblings().length) }),
        button("Rolling restart …", { test: "action-rolling", onclick: () =>
          actions.rolling(this.program) }))));
  }

  #siblings() {
    return [...this.context.store.instances.values()].map((e) => e.status)
      .filter((s) => s.program === this.program).sort((a, b) => collator.compare(a.name, b.name));
  }

  // open shows a tab.
  #open(key, first = false) {
    if (!this.place || (!first && key === this.tab)) return;
    this.tab = key;
    this.panel?.close?.();
    for (const tab of this.tabButtons) {
      const on = tab.id === `tab-${key}`;
      setAttr(tab, "aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    setAttr(this.place, "aria-labelledby", `tab-${key}`);
    setAttr(this.place, "data-test", `panel-${key}`);
    const href = (name) => this.context.router.href("program", name);
    this.panel = tabs[key].show(this.context, this.name, this.program, href);
    this.place.replaceChildren(this.panel.node);
    if (!first) this.context.router.replace({ tab: key === "log" ? "" : key });
  }

  #tabKey(event) {
    const keys = Object.keys(tabs);
    const at = keys.indexOf(this.tab);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const index = (next + keys.length) % keys.length;
    this.#open(keys[index]);
    this.tabButtons[index].focus();
  }

  #event(e) {
    if (!this.name || e.instance !== this.name && e.cursor !== 0) return;
    this.panel?.event?.(e);
    // Several events come together: one question is enough.
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.#why(), 300);
  }

  async #why() {
    try {
      const [answer] = await this.context.api.get("why", { name: this.name },
        { signal: this.abort.signal });
      setText(this.why, clean(answer?.text.trimEnd() ?? ""));
    } catch (err) {
      if (err.name === "AbortError") return;
      if (err.status === 404) setText(this.why, "The instance does not exist any more.");
      else this.why.replaceChildren(problem(err));
    }
  }

  #update(all, sampled) {
    if (!this.name) {
      if (all) this.#begin();
      return;
    }
    const entry = this.context.store.instances.get(this.name);
    if (!entry) {
      // The program may have other instances: between web and web@1 a scale changes the name.
      setText(this.state, "removed");
      this.mark.set("stopped");
      setText(this.reason, "The instance does not exist any more.");
      this.#showReplicas();
      return;
    }
    const { status } = entry;
    this.mark.set(status.state);
    setText(this.state, status.state);
    setText(this.reason, reasonText(status));
    this.#showReplicas();
    if (sampled) {
      this.cpuSpark.draw(entry.cpu);
      this.memorySpark.draw(entry.rss);
    }
    if (this.startButton) {
      this.startButton.disabled = ["running", "starting"].includes(status.state);
      this.stopButton.disabled = !isActive(status) && status.state === "stopped";
      this.rollButtons.hidden = !status.rolling;
    }
    const set = (key, text, tone = "") => {
      const { node, value } = this.facts.get(key);
      setText(value, text);
      setAttr(value, "class", tone);
      node.hidden = text === none && ["next", "groups", "log", "exit"].includes(key);
    };
    set("ready", readyText(status), status.ready ? "good" : "");
    set("health", healthText(status), { true: "good", false: "bad" }[status.healthy] ?? "");
    set("pid", String(status.pid ?? none));
    set("restarts", String(status.restarts ?? 0), status.restarts ? "warn" : "");
    set("since", moment(status.since));
    set("exit", status.exit ? `${exitText(status.exit)}, ${moment(status.exit.at)}` : none);
    set("groups", status.groups?.join(", ") || none);
    set("log", status.log_file ?? status.log_sink ?? none);
    this.#figures();
  }

  #figures() {
    const entry = this.context.store.instances.get(this.name);
    if (!entry || !this.facts) return;
    const set = (key, text) => setText(this.facts.get(key).value, text);
    const now = performance.now();
    set("uptime", duration(entry.uptime(now), true));
    set("cpu", percent(entry.share));
    set("memory", bytes(entry.status.rss_bytes));
    const next = entry.status.next_start_in_s;
    const seconds = next === null || next === undefined ? null
      : Math.max(0, next - (now - entry.at) / 1000);
    set("next", seconds === null ? none : `in ${duration(seconds, true)}`);
    this.facts.get("next").node.hidden = seconds === null;
  }

  #showReplicas() {
    const siblings = this.#siblings();
    const text = siblings.map((s) => `${s.name} ${s.state}`).join();
    if (text === this.shownReplicas) return;
    this.shownReplicas = text;
    this.replicas.hidden = siblings.length < 2 && siblings[0]?.name === this.name;
    this.replicas.replaceChildren(
      el("span", { class: "quiet" }, `${plural(siblings.length, "instance")} `),
      ...siblings.slice(0, 60).map((s) => el("a", {
        href: this.context.router.href("program", s.name, { tab: this.tab === "log" ? "" : this.tab }),
        "aria-current": s.name === this.name ? "page" : null, test: `replica-${s.name}`,
        title: s.state }, new StateMark(s.state).node,
      s.name.startsWith(`${this.program}@`) ? s.name.slice(this.program.length) : s.name)));
  }
}

export function showProgram(root, context, route) {
  return new Program(root, context, route);
}
