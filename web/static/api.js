// Requests to the web server, which passes those below /api/HOST on to a superd.

// An ApiError is what the API answers in place of a result: the message says what is wrong, remedy
// (which may be empty) what helps. status is 0 if there was no answer.
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error || `the server answered with status ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.remedy = body.remedy || "";
    this.mistakes = body.mistakes || [];
  }
}

// request sends body as it is: the browser sets the type of a form.
async function request(method, path, { body, headers, signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method, signal, body, headers, credentials: "same-origin", cache: "no-store",
    });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new ApiError(0, { error: "no answer from superd web",
      remedy: "Is it still running, and the network up?" });
  }
  if (response.ok) return response;
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text.trim().slice(0, 300) };
  }
  throw new ApiError(response.status, answer);
}

// getSession returns who the visitor is: role, read_only, hosts, version.
export async function getSession() {
  return (await request("GET", "/session")).json();
}

export async function login(token) {
  await request("POST", "/login", {
    body: JSON.stringify({ token }), headers: { "Content-Type": "application/json" },
  });
}

export async function logout() {
  await request("POST", "/logout");
}

// form makes parameters of an object: an array is a parameter that is repeated.
function form(params) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) search.append(key, one);
    }
  }
  return search;
}

function query(params) {
  const text = form(params).toString();
  return text ? `?${text}` : "";
}

// An Api speaks with the superd of one host. onLost is called when the session is no longer valid.
export class Api {
  constructor(host, onLost) {
    this.host = host;
    this.onLost = onLost;
  }

  async #call(method, path, options) {
    try {
      return await request(method, `/api/${encodeURIComponent(this.host)}/v1/${path}`, options);
    } catch (err) {
      if (err.status === 401) this.onLost();
      throw err;
    }
  }

  async get(path, params, options) {
    return (await this.#call("GET", path + query(params), options)).json();
  }

  // lines returns the objects of an answer that has one on each line.
  async lines(path, params, options) {
    const text = await (await this.#call("GET", path + query(params), options)).text();
    return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }

  // post sends parameters as a form, since a thousand names are too long for an address.
  async post(path, params) {
    return (await this.#call("POST", path, { body: form(params) })).json();
  }

  // command sends a command for names: start, stop, restart, reload, signal and so on. It is one
  // request, so that superd does all of it, or refuses all.
  command(verb, names, params) {
    return this.post(`programs/${verb}`, { name: names, ...params });
  }

  url(path, params) {
    return `${path}${query({ host: this.host, ...params })}`;
  }
}
