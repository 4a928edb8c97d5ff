// The page of hosts: what the superd of each says, asked now and then.
import { el, StateMark, states } from "./dom.js";
import { Api } from "./api.js";
import { duration, none } from "./format.js";
import { format } from "./router.js";

const period = 5000; // ms between two looks at a host

class Hosts {
  constructor(root, { session, router }) {
    this.abort = new AbortController();
    this.timers = new Map();
    const titles = ["Host", "Programs", "superd", "Up"];
    const body = el("tbody", { role: "rowgroup" });
    root.append(el("div", { class: "toolbar" }, el("h1", { tabindex: -1 }, "Hosts"),
      el("span", { class: "quiet count" }, String(session.hosts.length))),
    el("table", { class: "plain cards", role: "table", test: "hosts-table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, titles.map((t) =>
        el("th", { role: "columnheader", scope: "col" }, t)))), body));
    for (const host of session.hosts) {
      const params = new URLSearchParams(host === router.defaultHost ? {} : { host });
      const cells = titles.slice(1).map((t) => el("td", { role: "cell", "data-title": t }, none));
      body.append(el("tr", { role: "row", test: `host-${host}` },
        el("th", { role: "rowheader", scope: "row" },
          el("a", { href: format({ page: "programs", name: "", params }) }, host)), cells));
      this.#look(new Api(host, () => {}), cells);
    }
  }

  close() {
    this.abort.abort();
    for (const timer of this.timers.values()) clearTimeout(timer);
  }

  async #look(api, [programs, version, uptime]) {
    try {
      const options = { signal: this.abort.signal };
      const [list, about] = await Promise.all([
        api.get("status", { brief: 1 }, options), api.get("version", {}, options)]);
      const counts = new Map();
      for (const { state } of list) counts.set(state, (counts.get(state) ?? 0) + 1);
      programs.replaceChildren(...Object.keys(states).filter((s) => counts.has(s)).map((s) =>
        el("span", { class: "tally" }, new StateMark(s).node, `${counts.get(s)} ${s}`)));
      if (list.length === 0) programs.replaceChildren("none");
      version.replaceChildren(about.version);
      uptime.replaceChildren(duration(about.uptime_s, true));
    } catch (err) {
      if (err.name === "AbortError") return;
      programs.replaceChildren(el("b", { class: "bad" }, "does not answer"), `: ${err.message}`);
      version.replaceChildren(none);
      uptime.replaceChildren(none);
    }
    this.timers.set(api.host, setTimeout(() => this.#look(api, [programs, version, uptime]), period));
  }
}

export function showHosts(root, context) {
  return new Hosts(root, context);
}
