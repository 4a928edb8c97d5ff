// What the page knows of one host, kept up to date by one event stream.
//
// Status messages change the map of instances; whoever shows them is told at most ten times a
// second which names have changed. Events have numbers: the browser names the last one when it
// connects again, so none is missed while a connection, superd or superd web is away.

const frame = 100; // ms between two notifications
const tick = 2000; // ms between two samples of the curves
export const samples = 60; // so the curves show two minutes
const least = 1000; // ms over which the share of a processor is measured
const stale = 5000; // ms without a new figure after which a processor counts as idle
const hiddenFor = 60_000; // ms after which a hidden page gives its connection back

// An Entry is one instance: its status, when that came, and samples of processor share and memory,
// the newest last. NaN stands where there was nothing to measure.
class Entry {
  constructor(status, now) {
    this.cpu = new Float64Array(samples).fill(NaN);
    this.rss = new Float64Array(samples).fill(NaN);
    this.share = null;
    this.status = status;
    this.at = now;
    this.#measure(now);
  }

  update(status, now) {
    // A brief status has some keys only: the others stand.
    this.status = { ...this.status, ...status };
    this.at = now;
    this.#measure(now);
  }

  // measure finds out the share of a processor since the figure in base.
  #measure(now) {
    const { pid, cpu_s: cpu } = this.status;
    const { base } = this;
    if (typeof cpu !== "number" || !pid || base?.pid !== pid || cpu < base.cpu) {
      this.share = null;
      this.base = typeof cpu === "number" && pid ? { pid, cpu, at: now } : null;
    } else if (cpu !== base.cpu && now - base.at >= least) {
      this.share = (cpu - base.cpu) / ((now - base.at) / 1000);
      this.base = { pid, cpu, at: now };
    }
  }

  sample(now) {
    if (this.base && now - this.base.at > stale) this.share = 0;
    push(this.cpu, this.share ?? NaN);
    push(this.rss, this.status.rss_bytes ?? NaN);
  }

  // uptime counts on since the status came, in seconds.
  uptime(now) {
    const { uptime_s: uptime } = this.status;
    return uptime === null || uptime === undefined ? null : uptime + (now - this.at) / 1000;
  }
}

function push(ring, value) {
  ring.copyWithin(0, 1);
  ring[ring.length - 1] = value;
}

export class Store {
  // state is connecting, live, down (superd does not answer) or offline (superd web does not).
  constructor(host, { onLost }) {
    this.host = host;
    this.instances = new Map();
    this.state = "connecting";
    this.problem = "";
    this.complete = false;
    this.cursor = null;
    this.onLost = onLost;
    this.watchers = new Set();
    this.eventWatchers = new Set();
    this.stateWatchers = new Set();
    this.changed = new Set();
    this.all = false;
    this.scheduled = false;
    this.retry = 500;
    this.ticker = setInterval(() => this.#sample(), tick);
    this.visibility = () => this.#visible();
    document.addEventListener("visibilitychange", this.visibility);
    this.#open();
  }

  // watch calls f(changed, all) after changes: the set of names, and whether to look at everything.
  // It returns what ends that.
  watch(f) {
    this.watchers.add(f);
    return () => this.watchers.delete(f);
  }

  watchEvents(f) {
    this.eventWatchers.add(f);
    return () => this.eventWatchers.delete(f);
  }

  watchState(f) {
    this.stateWatchers.add(f);
    f(this.state, this.problem);
    return () => this.stateWatchers.delete(f);
  }

  close() {
    this.closed = true;
    clearInterval(this.ticker);
    clearTimeout(this.reopen);
    clearTimeout(this.hiding);
    document.removeEventListener("visibilitychange", this.visibility);
    this.source?.close();
    this.watchers.clear();
    this.eventWatchers.clear();
    this.stateWatchers.clear();
  }

  #open() {
    const params = new URLSearchParams({ host: this.host });
    if (this.cursor !== null) params.set("cursor", this.cursor);
    const source = new EventSource(`/stream?${params}`);
    this.source = source;
    const on = (type, f) => source.addEventListener(type, (message) => {
      this.retry = 500;
      f(message.data ? JSON.parse(message.data) : null, message);
    });
    on("snapshot", (list) => this.#snapshot(list));
    on("status", (list) => this.#update(list));
    on("gone", (names) => this.#gone(names));
    on("event", (event, message) => this.#event(event, message.lastEventId));
    on("down", (data) => this.#setState("down", data?.error ?? ""));
    on("up", () => this.#setState("live", ""));
    source.onopen = () => {
      // superd itself may still be away: then a message "down" follows.
      if (this.state !== "down") this.#setState(this.complete ? "live" : "connecting", "");
    };
    source.onerror = () => this.#failed(source);
  }

  // failed: the browser tries again by itself unless the answer was no stream, such as 401 or 503.
  #failed(source) {
    if (source !== this.source) return;
    this.#setState("offline", "");
    if (source.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.reopen);
    this.reopen = setTimeout(async () => {
      if (await this.onLost() || this.closed) return;
      this.#open();
    }, this.retry);
    this.retry = Math.min(this.retry * 2, 10_000);
  }

  // A browser has six connections to a server of HTTP/1.1, for all its tabs: those that nobody sees
  // give theirs back. Nothing is missed, as the events go on from the cursor.
  #visible() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        clearTimeout(this.reopen);
        this.source?.close();
        this.source = null;
      }, hiddenFor);
    } else if (!this.source) {
      this.#open();
    }
  }

  #setState(state, problem) {
    if (state === this.state && problem === this.problem) return;
    this.state = state;
    this.problem = problem;
    for (const f of this.stateWatchers) f(state, problem);
  }

  #snapshot(list) {
    const names = new Set(list.map((status) => status.name));
    for (const name of this.instances.keys()) {
      if (!names.has(name)) this.instances.delete(name);
    }
    this.complete = true;
    this.all = true;
    this.#update(list);
    this.#setState("live", "");
  }

  #update(list) {
    const now = performance.now();
    for (const status of list) {
      const entry = this.instances.get(status.name);
      if (entry) {
        entry.update(status, now);
      } else {
        this.instances.set(status.name, new Entry(status, now));
        this.all = true;
      }
      this.changed.add(status.name);
    }
    this.#schedule();
  }

  #gone(names) {
    for (const name of names) this.instances.delete(name);
    this.all = true;
    this.#schedule();
  }

  #event(event, id) {
    if (id) this.cursor = id;
    for (const f of this.eventWatchers) f(event);
  }

  #sample() {
    const now = performance.now();
    for (const entry of this.instances.values()) entry.sample(now);
    for (const f of this.watchers) f(new Set(), false, true);
  }

  #schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    setTimeout(() => requestAnimationFrame(() => {
      this.scheduled = false;
      const changed = this.changed;
      const all = this.all;
      this.changed = new Set();
      this.all = false;
      for (const f of this.watchers) f(changed, all, false);
    }), frame);
  }
}
