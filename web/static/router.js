// Pages by the part of the address behind "#/": programs, program/NAME, graph, events, sockets,
// hosts. Behind a "?" stand what a page shows (a filter, a tab) and the host, so that an address
// can be sent to a colleague. Anything else behind "#" is a token: see app.js.

export function parse(hash) {
  const text = hash.startsWith("#/") ? hash.slice(2) : "";
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  const params = new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1));
  const [page = "", ...rest] = path.split("/");
  let name = rest.join("/");
  try {
    name = decodeURIComponent(name);
  } catch {
    // A broken escape is part of the name, which then does not exist.
  }
  return { page: page || "programs", name, params };
}

export function format({ page, name, params }) {
  const path = name ? `${page}/${encodeURIComponent(name)}` : page;
  const query = params?.toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

// A Router calls show(route, first) for each address: first is true for the one at the beginning.
// The host is part of each address unless it is the first one.
export class Router {
  constructor(show, defaultHost) {
    this.show = show;
    this.defaultHost = defaultHost;
    this.listener = () => this.#go(false);
  }

  start() {
    addEventListener("hashchange", this.listener);
    this.#go(true);
  }

  stop() {
    removeEventListener("hashchange", this.listener);
  }

  host() {
    return this.current?.params.get("host") || this.defaultHost;
  }

  // href is the address of a page on the present host.
  href(page, name = "", params = {}) {
    return format({ page, name, params: this.#params(params, this.host()) });
  }

  go(page, name, params) {
    location.hash = this.href(page, name, params);
  }

  goHost(host) {
    const page = this.current.page === "program" ? "programs" : this.current.page;
    location.hash = format({ page, name: "", params: this.#params({}, host) });
  }

  // replace changes what the present page shows in its address, without another entry in the
  // browser's history and without showing it anew.
  replace(params) {
    this.current.params = this.#params(params, this.host());
    history.replaceState(null, "", format(this.current));
  }

  #params(params, host) {
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(params)) if (value) search.set(key, value);
    if (host !== this.defaultHost) search.set("host", host);
    return search;
  }

  #go(first) {
    if (location.hash && !location.hash.startsWith("#/")) {
      // The skip link, whose target gets the focus without leaving the page.
      history.replaceState(null, "", this.current ? format(this.current) : "#/programs");
      document.getElementById("main").focus();
      return;
    }
    this.current = parse(location.hash);
    this.show(this.current, first);
  }
}
