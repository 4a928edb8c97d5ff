// The tabs of the page of one program. Each is {title, show}: show returns the element of the
// panel, what to do at an event of the instance, and what to do when the panel is left.
import { el } from "./dom.js";
import { LogPane } from "./log.js";
import { EventList } from "./timeline.js";
import { bytes, clean, duration, exitText, moment, none } from "./format.js";
import { problem } from "./messages.js";

export const tabs = {
  log: { title: "Log", show: (context, name) => new LogPane(context, name) },
  events: { title: "Events", show: (context, name) => new Events(context, name) },
  runs: { title: "Runs", show: (context, name) => new Asked(context, runs(name), 400) },
  processes: { title: "Processes", show: (context, name) => new Asked(context, processes(name), 400, 3000) },
  config: {
    title: "Configuration",
    show: (context, name, program) => new Asked(context, configuration(program), 400),
  },
};

// An Asked panel shows what look, an async function of the API and options, returns. It looks again
// a while after an event, and each period if there is one (both in ms).
class Asked {
  constructor({ api }, look, delay, period) {
    this.look = () => look(api, { signal: this.abort.signal });
    this.delay = delay;
    this.period = period;
    this.abort = new AbortController();
    this.node = el("div", {}, el("p", { class: "quiet" }, "Loading …"));
    this.#show();
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  event() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#show(), this.delay);
  }

  async #show() {
    try {
      this.node.replaceChildren(await this.look());
    } catch (err) {
      if (err.name === "AbortError") return;
      this.node.replaceChildren(problem(err));
    }
    clearTimeout(this.timer);
    if (this.period) this.timer = setTimeout(() => this.#show(), this.period);
  }
}

class Events {
  constructor({ api }, name) {
    this.abort = new AbortController();
    this.list = new EventList(null);
    this.note = el("p", { class: "quiet" }, "Loading …");
    this.node = el("div", {}, this.list.node, this.note);
    this.load = () => this.#load(api, name);
    this.load();
  }

  close() {
    this.abort.abort();
  }

  async #load(api, name) {
    try {
      const events = await api.lines("events", { name, lines: 200 }, { signal: this.abort.signal });
      this.last = events.at(-1)?.cursor ?? 0;
      this.list.set(events);
      this.note.replaceChildren(events.length === 200 ? "The last 200 events." : events.length === 0
        ? "superd has kept no event of it." : "");
    } catch (err) {
      if (err.name !== "AbortError") this.note.replaceChildren(problem(err));
    }
  }

  event(e) {
    if (e.cursor === 0) this.load(); // superd has begun a new event log
    else if (this.last !== undefined && e.cursor > this.last) {
      this.last = e.cursor;
      this.list.add(e);
    }
  }
}

// table makes a table of rows of cells. Titles with a leading ">" are those of numbers.
function table(label, titles, rows) {
  const plain = titles.map((t) => t.replace(/^>/, ""));
  const tone = (i) => (titles[i].startsWith(">") ? "number" : null);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { class: "plain cards", role: "table", "aria-label": label },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, plain.map((t, i) =>
        el("th", { role: "columnheader", scope: "col", class: tone(i) }, t)))),
      el("tbody", { role: "rowgroup" }, rows.map(({ cells, bad }) =>
        el("tr", { role: "row", class: bad ? "bad-row" : null }, cells.map((cell, i) =>
          el("td", { role: "cell", class: tone(i), "data-title": plain[i] }, cell)))))));
}

const runs = (name) => async (api, options) => {
  const history = await api.get("history", { name }, options);
  if (history.length === 0) return el("p", { class: "quiet" }, "superd has kept no run of it.");
  const rows = history.reverse().slice(0, 500).map((run) => {
    const bad = run.pid === null || (run.exit && run.exit.code !== 0 &&
      !["stop-signal", "stop-timeout"].includes(run.reason_kind));
    const end = run.pid === null ? "could not be started" : run.exit ? exitText(run.exit)
      : run.ended_at ? "unknown" : "runs";
    return { bad, cells: [moment(run.started_at), moment(run.ended_at), duration(run.duration_s), end,
      clean(run.reason ?? ""), String(run.pid ?? none), duration(run.cpu_s),
      `${run.max_rss_is_bound && run.max_rss_bytes ? "≤ " : ""}${bytes(run.max_rss_bytes)}`,
      el("code", { title: run.run }, run.run?.slice(0, 8) ?? none)] };
  });
  return table("Runs", ["Started", "Ended", ">Duration", "End", "Reason", ">Pid", ">CPU time",
    ">Peak memory", "Run"], rows);
};

const processes = (name) => async (api, options) => {
  const [tree] = await api.get("tree", { name }, options);
  const all = tree?.processes ?? [];
  if (all.length === 0) return el("p", { class: "quiet" }, "It has no processes.");
  const known = new Set(all.map((p) => p.pid));
  const children = new Map();
  for (const p of all) {
    const parent = known.has(p.ppid) && p.ppid !== p.pid ? p.ppid : 0;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(p);
  }
  const rows = [];
  const walk = (parent, depth) => {
    for (const p of children.get(parent) ?? []) {
      const branch = depth ? `${"   ".repeat(depth - 1)}└─ ` : "";
      rows.push({ cells: [String(p.pid), el("span", { class: "command" },
        el("span", { class: "branch", "aria-hidden": "true" }, branch), clean(p.command),
        p.pid === tree.pid ? el("span", { class: "quiet" }, " (main process)") : null), p.state,
      duration(p.cpu_s), bytes(p.rss_bytes)] });
      walk(p.pid, depth + 1);
    }
  };
  walk(0, 0);
  return table("Processes", [">Pid", "Command", "State", ">CPU time", ">Memory"], rows);
};

// configuration shows the table of the program in TOML. The API leaves out values of variables.
const configuration = (program) => async (api, options) => {
  const [found] = await api.get("config", { name: program }, options);
  const text = found?.text.trimEnd() ?? "";
  return el("pre", { class: "toml", tabindex: 0, role: "group", "aria-label": "Configuration" },
    text.split("\n").map((line) => {
      if (/^\s*#/.test(line)) return [el("span", { class: "comment" }, line), "\n"];
      if (/^\s*\[/.test(line)) return [el("b", {}, line), "\n"];
      const pair = /^([\w.\-"]+)( = )(.*)$/.exec(line);
      return pair ? [el("span", { class: "key" }, pair[1]), pair[2], pair[3], "\n"] : [line, "\n"];
    }).flat());
};
