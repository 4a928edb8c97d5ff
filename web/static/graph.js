// The page of dependencies: a drawing from left to right, in the order in which programs start,
// with what keeps others from starting marked.
import { el, svg, button, setText, StateMark } from "./dom.js";
import { blocking, byProgram, culprits, worst } from "./deps.js";
import { place } from "./layout.js";
import { clean, plural } from "./format.js";
import { problem } from "./messages.js";

const size = { height: 46, gapX: 76, gapY: 18 };
const widths = { least: 172, most: 300, letter: 7.6, rest: 46 }; // of a node, by its name
const edgeOfPage = 12; // around the drawing

class GraphPage {
  constructor(root, context, route) {
    this.context = context;
    this.root = root;
    this.focus = route.params.get("focus");
    this.zoom = 1;
    this.nodes = new Map();
    this.edges = [];
    this.count = el("span", { class: "quiet count" });
    this.blockers = el("section", { class: "blockers", "aria-label": "What blocks what",
      test: "blockers" });
    this.place = el("div", { class: "graph", test: "graph", tabindex: 0, role: "region",
      "aria-label": "Drawing of the dependencies" }, el("p", { class: "quiet" }, "Loading …"));
    const zoom = (by) => () => {
      this.zoom = Math.min(2, Math.max(0.25, this.zoom * by));
      this.#scale();
    };
    root.append(el("div", { class: "toolbar" }, el("h1", { tabindex: -1 }, "Dependencies"), this.count,
      el("p", { class: "legend" },
        el("span", { class: "key requires" }, "requires"), el("span", { class: "key after" }, "after"),
        el("span", { class: "key blocking" }, "keeps it from starting")),
      el("span", { class: "space" }),
      button("−", { "aria-label": "Smaller", onclick: zoom(1 / 1.25) }),
      button("+", { "aria-label": "Larger", onclick: zoom(1.25) })),
    this.blockers, this.place);
    this.unwatch = context.store.watch((changed, all, sampled) => {
      if (!sampled) this.#update();
    });
    this.unwatchEvents = context.store.watchEvents((e) => {
      if (e.kind === "reload" && !e.instance) this.#load();
    });
    this.#load();
  }

  close() {
    this.closed = true;
    this.unwatch();
    this.unwatchEvents();
  }

  async #load() {
    try {
      this.graph = await this.context.graph();
    } catch (err) {
      if (!this.closed) this.place.replaceChildren(problem(err));
      return;
    }
    if (this.closed) return;
    this.#draw();
    this.#update();
  }

  #draw() {
    const edges = this.graph.edges();
    const tied = new Set(edges.flatMap((e) => [e.from, e.to]));
    const all = [...this.graph.programs.keys()].sort();
    const free = all.filter((name) => !tied.has(name));
    setText(this.count, plural(all.length, "program"));
    this.nodes = new Map();
    const parts = [];
    if (tied.size) {
      const longest = Math.max(...[...tied].map((name) => name.length));
      this.width = Math.min(Math.max(widths.rest + widths.letter * longest, widths.least), widths.most);
      const layout = place(all.filter((name) => tied.has(name)), edges, { ...size, width: this.width });
      parts.push(this.#picture(layout));
    }
    if (free.length) {
      parts.push(el("section", { class: "free" },
        el("h2", {}, `${plural(free.length, "program")} without dependencies`),
        el("ul", {}, free.map((name) => el("li", {}, this.#chip(name))))));
    }
    if (all.length === 0) parts.push(el("p", { class: "quiet" }, "superd has no programs."));
    this.place.replaceChildren(...parts);
    if (this.focus) {
      this.#highlight(this.focus);
      this.nodes.get(this.focus)?.node.scrollIntoView({ block: "center", inline: "center" });
    }
  }

  #picture(layout) {
    this.wide = layout.width + 2 * edgeOfPage;
    this.high = layout.height + 2 * edgeOfPage;
    const marker = (kind) => svg("marker", { id: `head-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4,
      markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto", class: `head ${kind}` },
    svg("path", { d: "M0 .5L7.5 4 0 7.5z" }));
    this.edges = layout.edges.map((edge) => {
      const node = svg("path", { d: curve(edge.points), test: `edge-${edge.from}-${edge.to}` });
      return { ...edge, node };
    });
    this.svg = svg("svg", { viewBox: `${-edgeOfPage} ${-edgeOfPage} ${this.wide} ${this.high}`,
      role: "group", "aria-label": `${plural(this.edges.length, "dependency", "dependencies")} of ${
        plural(layout.nodes.size, "program")}` },
    svg("defs", {}, ["requires", "after", "blocking"].map(marker)),
    svg("g", { class: "edges" }, this.edges.map((e) => e.node)),
    svg("g", {}, [...layout.nodes].map(([name, at]) => this.#node(name, at))));
    this.#scale();
    return this.svg;
  }

  #scale() {
    if (!this.svg) return;
    this.svg.setAttribute("width", Math.round(this.wide * this.zoom));
    this.svg.setAttribute("height", Math.round(this.high * this.zoom));
  }

  #node(name, { x, y }) {
    const mark = new StateMark("stopped");
    for (const [key, value] of [["x", 12], ["y", 10], ["width", 12], ["height", 12]]) {
      mark.node.setAttribute(key, value);
    }
    const state = svg("text", { x: 12, y: 38, class: "sub" });
    // A name that is too long is squeezed: where one is cut off, it can't be told from another.
    const room = this.width - widths.rest;
    const long = name.length * widths.letter > room;
    const node = svg("a", { href: this.context.router.href("program", name), class: "node",
      transform: `translate(${x} ${y})`, test: `node-${name}`,
      onpointerenter: () => this.#highlight(name), onpointerleave: () => this.#highlight(null),
      onfocus: () => this.#highlight(name), onblur: () => this.#highlight(null) },
    svg("rect", { width: this.width, height: size.height, rx: 7 }), mark.node,
    svg("text", { x: 31, y: 20.5, class: "name", textLength: long ? room : null,
      lengthAdjust: "spacingAndGlyphs" }, name), state);
    this.nodes.set(name, { node, mark, state });
    return node;
  }

  #chip(name) {
    const mark = new StateMark("stopped");
    const state = el("span", { class: "quiet" });
    const node = el("a", { href: this.context.router.href("program", name), test: `node-${name}` },
      mark.node, name, state);
    this.nodes.set(name, { node, mark, state });
    return node;
  }

  // highlight shows what a program needs and what needs it, or everything again.
  #highlight(name) {
    const near = new Set(name ? [name] : []);
    const reach = (from, to) => {
      const queue = [name];
      const seen = new Set(queue);
      while (queue.length) {
        const at = queue.pop();
        for (const edge of this.edges) {
          if (edge[from] !== at) continue;
          near.add(edge);
          if (!seen.has(edge[to])) {
            seen.add(edge[to]);
            near.add(edge[to]);
            queue.push(edge[to]);
          }
        }
      }
    };
    if (name) {
      reach("to", "from");
      reach("from", "to");
    }
    this.svg?.classList.toggle("choosing", Boolean(name));
    for (const [id, { node }] of this.nodes) node.classList.toggle("near", near.has(id));
    for (const edge of this.edges) edge.node.classList.toggle("near", near.has(edge));
  }

  #update() {
    if (!this.graph) return;
    const programs = byProgram(this.context.store.instances);
    for (const [name, { node, mark, state }] of this.nodes) {
      const statuses = programs.get(name) ?? [];
      const now = worst(statuses);
      mark.set(now ?? "stopped");
      const ready = statuses.filter((s) => s.ready).length;
      const more = statuses.length > 1 ? `, ${ready} of ${statuses.length} ready`
        : statuses[0]?.healthy === false ? ", unhealthy" : "";
      setText(state, now === null ? "no instances" : now + more);
      node.classList.toggle("trouble",
        ["failed", "backoff"].includes(now) || statuses.some((s) => s.healthy === false));
    }
    const found = blocking(this.graph, programs);
    const blocked = new Set(found.map((e) => `${e.from}\u0000${e.to}`));
    for (const edge of this.edges) {
      const kind = blocked.has(`${edge.from}\u0000${edge.to}`) ? "blocking" : edge.kind;
      if (edge.shown === kind) continue;
      edge.shown = kind;
      edge.node.classList.remove("requires", "after", "blocking");
      edge.node.classList.add("edge", kind);
      edge.node.setAttribute("marker-end", `url(#head-${kind})`);
    }
    this.#showBlockers(culprits(found), programs);
  }

  #showBlockers(list, programs) {
    const text = JSON.stringify(list.map((c) => [c, programs.get(c.program)?.map((s) => s.reason)]));
    if (text === this.shownBlockers) return;
    this.shownBlockers = text;
    this.blockers.hidden = list.length === 0;
    const link = (name) => el("a", { href: this.context.router.href("program", name) }, name);
    this.blockers.replaceChildren(el("h2", {}, "What blocks what"), el("ul", {},
      list.map(({ program, waiting }) => {
        const statuses = programs.get(program) ?? [];
        const state = worst(statuses) ?? "stopped";
        const reason = statuses.find((s) => s.state === state)?.reason;
        return el("li", { test: `blocker-${program}` }, new StateMark(state).node,
          el("div", {}, el("b", {}, link(program)), ` (${state})`, reason ? `: ${clean(reason)}` : "",
            el("p", {}, `${waiting.length === 1 ? "Waits" : "Wait"} for it: `,
              waiting.slice(0, 20).map((name, i) => [i ? ", " : "", link(name)]).flat(),
              waiting.length > 20 ? ` and ${waiting.length - 20} more` : "")));
      })));
  }
}

// curve draws an edge through its points: straight along a node, curved between two layers.
function curve(points) {
  let d = `M${points[0].x} ${points[0].y}`;
  for (let i = 1; i < points.length; i++) {
    const a = points[i - 1];
    const b = points[i];
    if (i % 2 === 0) {
      d += `L${b.x} ${b.y}`;
    } else {
      const bend = (b.x - a.x) / 2;
      d += `C${a.x + bend} ${a.y} ${b.x - bend} ${b.y} ${b.x} ${b.y}`;
    }
  }
  return d;
}

export function showGraph(root, context, route) {
  return new GraphPage(root, context, route);
}
