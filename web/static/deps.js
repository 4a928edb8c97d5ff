// Which program depends on which: read from the configuration in force.

// names reads the strings of an array of TOML as the API writes it: on one line, in double quotes
// or, where there is a backslash, in single ones.
function names(text, key) {
  const line = new RegExp(`^${key} = \\[(.*)\\]$`, "m").exec(text);
  if (!line) return [];
  return [...line[1].matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g)].map(([, double, single]) =>
    single ?? JSON.parse(`"${double}"`));
}

// A Graph has for each program what it requires and what it is ordered after, and the reverse.
export class Graph {
  // configs is the answer of /v1/config.
  constructor(configs) {
    this.programs = new Map();
    for (const { program, text } of configs) {
      this.programs.set(program, { requires: names(text, "requires"), after: names(text, "after") });
    }
    this.dependents = new Map([...this.programs.keys()].map((name) => [name, []]));
    for (const [name, { requires }] of this.programs) {
      for (const other of requires) this.dependents.get(other)?.push(name);
    }
  }

  // edges returns {from, to, kind}: from is needed by to.
  edges() {
    const all = [];
    for (const [to, { requires, after }] of this.programs) {
      for (const from of requires) {
        if (this.programs.has(from)) all.push({ from, to, kind: "requires" });
      }
      for (const from of after) {
        if (this.programs.has(from) && !requires.includes(from)) all.push({ from, to, kind: "after" });
      }
    }
    return all;
  }

  // requirers returns all programs that require one of these, at once or through others.
  requirers(programs) {
    const found = new Set();
    const queue = [...programs];
    while (queue.length) {
      for (const name of this.dependents.get(queue.pop()) ?? []) {
        if (!found.has(name)) {
          found.add(name);
          queue.push(name);
        }
      }
    }
    for (const name of programs) found.delete(name);
    return [...found].sort();
  }
}

// The order of states from the one that needs attention most: a program with replicas is shown with
// the first of those that its instances have.
const order = ["failed", "backoff", "stopping", "starting", "waiting", "running", "exited", "stopped"];

// worst returns the state of several instances, or null without any.
export function worst(statuses) {
  let found = null;
  for (const { state } of statuses) {
    if (found === null || order.indexOf(state) < order.indexOf(found)) found = state;
  }
  return found;
}

// byProgram groups the statuses of a store by program.
export function byProgram(instances) {
  const programs = new Map();
  for (const { status } of instances.values()) {
    const list = programs.get(status.program);
    if (list) list.push(status);
    else programs.set(status.program, [status]);
  }
  return programs;
}

// satisfies reports whether an instance is what its dependents wait for.
function satisfies(status, kind) {
  if (status.ready) return true;
  if (status.state === "exited" && status.exit?.code === 0) return true;
  // An ordering concerns only those that are on their way up.
  return kind === "after" && ["stopped", "failed", "exited", "stopping"].includes(status.state);
}

const waits = new Set(["waits-for-dependency", "dependency-lost"]);

// blocking returns the edges over which a program keeps another one from starting now.
export function blocking(graph, programs) {
  return graph.edges().filter(({ from, to, kind }) =>
    (programs.get(to) ?? []).some((s) => s.state === "waiting" && waits.has(s.reason_kind)) &&
    (programs.get(from) ?? []).some((s) => !satisfies(s, kind)));
}

// culprits returns for each program that blocks others and is itself blocked by none, what waits
// for it, at once or through others.
export function culprits(edges) {
  const blocked = new Set(edges.map((e) => e.to));
  const next = new Map();
  for (const { from, to } of edges) {
    if (!next.has(from)) next.set(from, []);
    next.get(from).push(to);
  }
  const found = [];
  for (const program of [...next.keys()].filter((name) => !blocked.has(name)).sort()) {
    const seen = new Set();
    const queue = [program];
    while (queue.length) {
      for (const to of next.get(queue.pop()) ?? []) {
        if (!seen.has(to)) {
          seen.add(to);
          queue.push(to);
        }
      }
    }
    found.push({ program, waiting: [...seen].sort() });
  }
  return found;
}
