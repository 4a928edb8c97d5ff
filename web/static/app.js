// The page as a whole: login, header, routes, and what all pages share.
import { el, iconButton, button, prose, setText, setAttr } from "./dom.js";
import { Api, getSession, login, logout } from "./api.js";
import { Store } from "./stream.js";
import { Router } from "./router.js";
import { Keys } from "./keys.js";
import { Actions } from "./actions.js";
import { Graph } from "./deps.js";
import { showHelp } from "./dialogs.js";
import { failure } from "./messages.js";
import { showPrograms } from "./programs.js";
import { showProgram } from "./program.js";
import { showGraph } from "./graph.js";
import { showTimeline } from "./timeline.js";
import { showSockets } from "./sockets.js";
import { showHosts } from "./hosts.js";

const pages = {
  programs: { title: "Programs", show: showPrograms },
  program: { title: "Program", show: showProgram },
  graph: { title: "Dependencies", show: showGraph, key: "d" },
  events: { title: "Events", show: showTimeline, key: "e" },
  sockets: { title: "Sockets", show: showSockets, key: "s" },
  hosts: { title: "Hosts", show: showHosts, key: "h" },
};

const main = document.getElementById("main");
const header = document.getElementById("header");
const banner = document.getElementById("banner");

// takeToken returns the token in the address, which is removed there so that it is neither kept in
// the history nor seen over a shoulder.
function takeToken() {
  let text = location.hash.slice(1);
  try {
    text = decodeURIComponent(text);
  } catch {
    // Then it has no escapes.
  }
  if (!text || text.startsWith("/") || text === "main") return null;
  history.replaceState(null, "", location.pathname);
  return text.startsWith("token=") ? text.slice("token=".length) : text;
}

// A Shell is the page of a visitor who has logged in.
class Shell {
  constructor(session, keys) {
    this.session = session;
    this.keys = keys;
    this.router = new Router((route, first) => this.#show(route, first), session.hosts[0]);
    this.host = null;
    this.page = null;
  }

  start() {
    header.replaceChildren(...this.#header());
    this.unbind = this.keys.bind({
      "?": () => showHelp(),
      "g p": () => this.router.go("programs"),
      "g d": () => this.router.go("graph"),
      "g e": () => this.router.go("events"),
      "g s": () => this.router.go("sockets"),
      "g h": () => this.router.go("hosts"),
      Escape: () => (document.activeElement?.blur?.(), false),
    });
    this.router.start();
  }

  stop() {
    this.ended = true;
    document.body.classList.remove("outdated");
    this.router.stop();
    this.unbind?.();
    this.page?.close?.();
    this.store?.close();
    banner.hidden = true;
    header.replaceChildren();
  }

  // lost is called when a request was refused, for want of a session or because superd web was
  // started again with other hosts. It resolves to true if so.
  async lost() {
    let session;
    try {
      session = await getSession();
    } catch {
      return false; // superd web is away: the stream tries again
    }
    if (session.role && String(session.hosts) === String(this.session.hosts)) return false;
    if (this.ended) return true; // several requests were refused
    this.stop();
    await begin(session.role ? "" : "You have been logged out.");
    return true;
  }

  #header() {
    const { hosts, role, read_only: readOnly, version } = this.session;
    this.links = Object.entries(pages).filter(([page]) =>
      page !== "program" && (page !== "hosts" || hosts.length > 1))
      .map(([page, { title }]) => [page, el("a", { test: `nav-${page}` }, title)]);
    const nav = el("nav", { "aria-label": "Pages" }, this.links.map(([, link]) => link));
    this.connection = el("span", { class: "connection", test: "connection" },
      el("span", { class: "lamp", "aria-hidden": "true" }), el("span", {}, "connecting"));
    this.hosts = hosts.length < 2 ? null : el("select", { "aria-label": "Host", test: "host-switch",
      onchange: (event) => this.router.goHost(event.target.value) },
    hosts.map((host) => el("option", { value: host }, host)));
    const may = role === "operator" && !readOnly;
    return [
      el("a", { class: "brand", href: "#/programs" }, el("img", { src: "/static/icon.svg", alt: "",
        width: 20, height: 20 }), "superd"),
      this.hosts, nav, el("span", { class: "space" }), this.connection,
      may ? null : el("span", { class: "role", title: "This login may look and not change anything" },
        readOnly ? "read-only" : "viewer"),
      may ? button("Reload …", { class: "quiet-button", test: "reload-open",
        title: "Reload the configuration of superd",
        onclick: () => this.context.actions.reloadConfiguration() }) : null,
      iconButton("theme", "Change between light and dark", { test: "theme", onclick: changeTheme }),
      el("button", { type: "button", class: "icon-button", "aria-label": "Keys (?)", title: "Keys (?)",
        test: "help-open", onclick: showHelp }, "?"),
      iconButton("out", `Log out (superd web ${version})`, { test: "logout", onclick: async () => {
        try {
          await logout();
        } catch (err) {
          failure("You are still logged in", err);
          return;
        }
        this.stop();
        await begin("");
      } }),
    ].filter(Boolean);
  }

  // enter makes what belongs to a host: its stream and its commands.
  #enter(host) {
    this.store?.close();
    this.host = host;
    const store = new Store(host, { onLost: () => this.lost() });
    const api = new Api(host, () => this.lost());
    let known = null;
    // The dependencies change with a reload only, so they are asked for once.
    const graph = () => {
      if (!known) {
        known = api.get("config").then((configs) => new Graph(configs));
        known.catch(() => { known = null; });
      }
      return known;
    };
    store.watchEvents((event) => {
      if (event.kind === "reload" && !event.instance) known = null;
    });
    this.store = store;
    this.context = { host, store, api, graph, session: this.session, router: this.router,
      keys: this.keys, actions: new Actions({ api, store, session: this.session, graph }) };
    store.watchState((state, problem) => this.#connection(state, problem));
    if (this.hosts) this.hosts.value = host;
  }

  #connection(state, problem) {
    const texts = { connecting: "connecting", live: "live", down: "superd is down", offline: "offline" };
    this.connection.className = `connection ${state}`;
    setText(this.connection.lastElementChild, texts[state]);
    const shown = state === "down" || state === "offline";
    if (shown) {
      banner.replaceChildren(el("b", {}, state === "down"
        ? "superd is down." : "No connection to superd web."), " ",
      ...(problem ? [...prose(problem), ". "] : []),
      "The page shows what was known last, and goes on by itself when it is back.");
    }
    banner.hidden = !shown;
    document.body.classList.toggle("outdated", shown);
  }

  #show(route, first) {
    this.page?.close?.();
    this.page = null;
    const host = this.router.host();
    if (!this.session.hosts.includes(host)) {
      location.hash = "#/programs";
      return;
    }
    if (host !== this.host) this.#enter(host);
    const known = pages[route.page];
    for (const [page, link] of this.links) {
      link.href = this.router.href(page);
      const current = page === (route.page === "program" ? "programs" : route.page);
      setAttr(link, "aria-current", current ? "page" : null);
    }
    main.replaceChildren();
    document.title = `${route.name || known?.title || "Not found"} – superd`;
    if (known) {
      this.page = known.show(main, this.context, route) ?? null;
    } else {
      main.append(el("h1", { tabindex: -1 }, "Not found"), el("p", {}, "There is no such page. ",
        el("a", { href: this.router.href("programs") }, "All programs")));
    }
    scrollTo(0, 0);
    // A screen reader reads the heading of the new page, and Tab goes on from there.
    if (!first) main.querySelector("h1")?.focus();
  }
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("superd-theme", root.dataset.theme);
  } catch {
    // Then it holds until the page is left.
  }
}

// askToken shows the login and resolves when it has succeeded.
function askToken(note) {
  return new Promise((resolve) => {
    document.title = "Log in – superd";
    const left = new AbortController();
    const error = el("p", { class: "problem", role: "alert", test: "login-error", hidden: true });
    const input = el("input", { id: "token", type: "password", required: true, autofocus: true,
      autocomplete: "current-password", spellcheck: "false", test: "login-token",
      "aria-describedby": "token-hint" });
    const submit = el("button", { type: "submit", class: "primary", test: "login-submit" }, "Log in");
    const form = el("form", { class: "login", test: "login-form", onsubmit: async (event) => {
      event.preventDefault();
      submit.disabled = true;
      try {
        await login(input.value.trim());
        left.abort();
        resolve();
      } catch (err) {
        error.replaceChildren(...prose(err.message),
          err.remedy ? el("span", { class: "remedy" }, prose(err.remedy)) : "");
        error.hidden = false;
        input.select();
      } finally {
        submit.disabled = false;
      }
    } },
    el("img", { src: "/static/icon.svg", alt: "", width: 44, height: 44 }),
    el("h1", {}, "superd"),
    note ? el("p", { role: "status" }, note) : null,
    el("label", { for: "token" }, "Token"), input,
    el("p", { id: "token-hint", class: "hint" },
      "It is in the file that superd web names when it starts."),
    error, submit);
    main.replaceChildren(form);
    input.focus();
    // An address with a token that is entered while the form is shown loads no page.
    addEventListener("hashchange", () => {
      const token = takeToken();
      if (!token) return;
      input.value = token;
      form.requestSubmit();
    }, { signal: left.signal });
  });
}

const keys = new Keys();

// begin finds out who the visitor is, has them log in if need be, and shows the page.
async function begin(note) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    try {
      const token = takeToken();
      if (token) {
        await login(token).catch((err) => {
          note = `${err.message}. ${err.remedy}`;
        });
      }
      let session = await getSession();
      while (!session.role) {
        await askToken(note);
        session = await getSession();
        note = "The browser has not kept the cookie: allow cookies of this site.";
      }
      new Shell(session, keys).start();
      return;
    } catch (err) {
      main.replaceChildren(el("p", { class: "quiet", role: "status" },
        `${err.message}. Trying again …`));
      await new Promise((resolve) => { setTimeout(resolve, wait); });
    }
  }
}

begin("");
