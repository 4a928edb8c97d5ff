// Commands to superd: the question before each, the request, and what has come of it.
import { el, button } from "./dom.js";
import { ask, nameList } from "./dialogs.js";
import { done, failed, failure, working } from "./messages.js";
import { plural } from "./format.js";

// The commands that take only names. danger: it ends something that runs.
const commands = {
  start: { label: "Start", noun: "start", ing: "Starting" },
  stop: {
    label: "Stop", noun: "stop", ing: "Stopping", danger: true,
    text: "It stays stopped until an operator starts it again.",
    many: "They stay stopped until an operator starts them again.",
  },
  restart: { label: "Restart", noun: "restart", ing: "Restarting", danger: true },
  reload: {
    label: "Reload", noun: "reload", ing: "Reloading",
    text: "The program reads its own configuration again.",
    many: "The programs read their own configuration again.",
  },
  "reset-failed": {
    label: "Reset failures", noun: "reset of failures", ing: "Resetting failures of",
    text: "Forgets its failures and restarts. If it has failed, it becomes stopped.",
    many: "Forgets their failures and restarts. Those that have failed become stopped.",
  },
  continue: {
    label: "Continue", noun: "rolling restart", ing: "Continuing the rolling restart of",
    text: "The rolling restart goes on with the other instances.",
  },
  undo: {
    label: "Undo", noun: "undo of the rolling restart", ing: "Undoing the rolling restart of",
    danger: true, text: "No further instance is restarted, and the extra ones are stopped.",
  },
};

const signals = ["HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "WINCH", "ALRM", "CONT", "STOP", "KILL"];

const subject = (names) => (names.length === 1 ? names[0] : plural(names.length, "program"));

// Actions are the commands that the visitor may give on one host.
export class Actions {
  // graph returns a promise of the dependencies, for what else a stop stops.
  constructor({ api, store, session, graph }) {
    this.api = api;
    this.store = store;
    this.graph = graph;
    this.allowed = session.role === "operator" && !session.read_only;
  }

  label(verb) {
    return commands[verb].label;
  }

  // button makes the button of a command, or nothing if the visitor may not give it.
  button(verb, names, attributes = {}) {
    if (!this.allowed) return null;
    return button(this.label(verb), { test: `action-${verb}`,
      onclick: () => this.command(verb, names()), ...attributes },
    ["start", "stop", "restart"].includes(verb) ? verb : null);
  }

  async command(verb, names) {
    if (!this.allowed || names.length === 0) return;
    const { label, danger, text, many, noun, ing } = commands[verb];
    const answer = await ask({
      title: `${label} ${subject(names)}?`, yes: label, danger,
      text: names.length > 1 ? many : text,
      body: [names.length > 1 ? nameList(names) : null,
        verb === "stop" || verb === "restart" ? this.#alsoStopped(names) : null],
    });
    if (!answer) return;
    await this.#run(`${ing} ${subject(names)} …`, `The ${noun} of ${subject(names)}`,
      () => this.api.command(verb, names));
  }

  // alsoStopped is a list of what a stop of these stops, too. It is filled as soon as that is
  // known.
  #alsoStopped(names) {
    const place = el("div", {});
    const programs = names.map((name) => this.store.instances.get(name)?.status.program ?? name);
    this.graph().then((graph) => {
      const active = new Set([...this.store.instances.values()].map(({ status }) => status)
        .filter((s) => s.pid).map((s) => s.program));
      const others = graph.requirers(programs).filter((name) => active.has(name));
      if (others.length) place.append(el("p", {}, "Stopped with it, as they require it:"), nameList(others));
    }, () => {}); // the question stands without it, too
    return place;
  }

  async signal(names) {
    if (!this.allowed) return;
    const answer = await ask({
      title: `Send a signal to ${subject(names)}`, yes: "Send",
      text: "It goes to the main process.",
      fields: [{ name: "signal", label: "Signal", kind: "select", value: "HUP",
        options: signals.map((s) => ({ value: s, label: `SIG${s}` })) }],
    });
    if (!answer) return;
    await this.#run(`Sending SIG${answer.signal} to ${subject(names)} …`,
      `SIG${answer.signal} to ${subject(names)}`,
      () => this.api.command("signal", names, { signal: answer.signal }));
  }

  async scale(program, count) {
    if (!this.allowed) return;
    const answer = await ask({
      title: `Scale ${program}`, yes: "Scale",
      text: `It has ${plural(count, "instance")} now. Missing ones are started; of surplus ones ` +
        "those with the highest numbers are stopped.",
      fields: [{ name: "scale", label: "Instances", kind: "number", value: count, min: 0, max: 10000 }],
    });
    if (!answer) return;
    await this.#run(`Scaling ${program} to ${answer.scale} …`, `The scale of ${program}`, async () => {
      const results = await this.api.post("scale", { scale: `${program}=${answer.scale}` });
      return results.flatMap((r) => [
        { name: r.program, ok: !r.unrecorded, message: `${r.from} → ${r.to} instances`,
          unrecorded: r.unrecorded },
        ...r.instances,
      ]);
    });
  }

  async rolling(program) {
    if (!this.allowed) return;
    const answer = await ask({
      title: `Rolling restart of ${program}?`, yes: "Restart", danger: true,
      text: "The instances are restarted one after the other. The first failure ends it.",
      fields: [{ name: "canary", label: "Extra instances to start first", kind: "number", value: 0,
        min: 0, max: 1000,
        hint: "With extra instances, the others wait until you continue or undo." }],
    });
    if (!answer) return;
    const canary = Number(answer.canary) > 0 ? answer.canary : undefined;
    await this.#run(`Rolling restart of ${program} …`, `The rolling restart of ${program}`,
      () => this.api.command("restart", [program], { rolling: 1, canary }));
  }

  // run gives a command and reports its results: an object for each instance.
  async #run(doing, title, request) {
    const end = working(doing);
    try {
      report(title, await request());
    } catch (err) {
      failure(`${title} has failed`, err);
    } finally {
      end();
    }
  }

  // reloadConfiguration shows what a reload of superd's configuration would change, and does it.
  async reloadConfiguration() {
    if (!this.allowed) return;
    let plan;
    try {
      plan = await this.api.post("reload", { dry_run: 1 });
    } catch (err) {
      failure("The configuration cannot be reloaded", err);
      return;
    }
    const changes = describe(plan);
    const answer = await ask({
      title: "Reload the configuration of superd?", yes: "Reload",
      text: changes.length ? "The files on disk differ from what is in force:"
        : "The files on disk do not differ from what is in force.",
      body: changes.length ? el("ul", { class: "changes", test: "reload-preview" },
        changes.map(([name, what, keys]) => el("li", {}, el("b", {}, name), ` ${what}`,
          keys.length ? el("ul", {}, keys.map((key) => el("li", {}, el("code", {}, key)))) : null)))
        : [],
    });
    if (!answer) return;
    const end = working("Reloading the configuration …");
    try {
      const result = await this.api.post("reload");
      const lines = describe(result).map(([name, what]) => `${name}: ${what}`);
      if (result.unrecorded) lines.push(result.unrecorded);
      done("The configuration is in force", lines.slice(0, 6));
    } catch (err) {
      failure("The configuration is not reloaded", err);
    } finally {
      end();
    }
  }
}

// describe lists the changes of a reload: name, what, differences of keys.
function describe(plan) {
  const changes = plan.programs.filter((p) => p.change !== "unchanged")
    .map((p) => [p.program, p.change, p.keys.map((k) => k.text)]);
  for (const s of plan.sockets ?? []) {
    changes.push([`socket ${s.socket ?? s.name ?? ""}`, s.change, (s.keys ?? []).map((k) => k.text)]);
  }
  for (const k of plan.superd ?? []) {
    changes.push(["superd", k.restart ? "takes effect when superd is started again" : "", [k.text]]);
  }
  for (const note of plan.notes ?? []) changes.push(["note", note, []]);
  return changes;
}

// report shows the results of a command: an object for each instance, all or some with ok.
function report(title, results) {
  const bad = results.filter((r) => !r.ok || r.unrecorded);
  if (bad.length) {
    failed(bad.length === results.length ? `${title} has failed` : `${title} has failed in part`, {
      lines: bad.slice(0, 8).map((r) => `${r.name}: ${r.message}` +
        (r.unrecorded ? ` (not recorded: ${r.unrecorded})` : "")),
      output: bad.flatMap((r) => r.output ?? []).slice(0, 20),
      remedy: bad.length > 8 ? `and ${bad.length - 8} more` : "",
    });
  }
  const good = results.filter((r) => r.ok && !r.unrecorded);
  if (good.length && good.length <= 4) done(title, good.map((r) => `${r.name}: ${r.message}`));
  else if (good.length) done(title, [`${good.length} done`]);
}
