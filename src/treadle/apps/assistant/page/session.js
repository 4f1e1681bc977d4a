// The signed-in account, and all requests. The access token is in memory only; the cookie fetches a new one, once for all requests that need it.
// Errors are `Problem`s, whose message is a sentence for a person.

const NETWORK = "There is no connection to the server. Nothing you typed is lost; try again when you are back online.";
const SIGNED_OUT = "You were signed out. Sign in again to continue; the text you typed is still there.";
const FOREIGN = "This browser is signed in to an account that did not sign in on this page. Sign in again to continue.";
const NAME = "treadle-name"; // key in localStorage: the name to show after a reload
const TABS = new BroadcastChannel("treadle-session");

export class Problem extends Error {
  /** `status` is 0 if there was no response. */
  constructor(status, message, retryAfterS = null) {
    super(message);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

export const session = new (class extends EventTarget {
  #token = null;
  #refreshing = null;

  /** Dispatches `change` when the signed-in account changes, and `left` when the person signs out, here or in another tab. */
  constructor() {
    super();
    TABS.onmessage = ({ data }) => {
      if (data.subject === null) this.dispatchEvent(new Event("left"));
      else if (data.subject !== this.subject) this.refresh().catch(() => {});
    };
  }

  /** Subject of the token; null if no account is signed in. */
  get subject() {
    return subjectOf(this.#token);
  }

  /** True if an account signed in with this browser and did not sign out: otherwise there is no cookie. */
  get isKnown() {
    return localStorage.getItem(NAME) !== null;
  }

  /** Username as typed in this browser, or "". */
  get name() {
    const kept = entered();
    return kept?.subject === this.subject ? kept.name : "";
  }

  /** Sign in or register: `kind` is login or register. Raises Problem. The cookie and the kept subject change under one lock: a refresh never sees one without the other. */
  async enter(kind, username, password) {
    const token = await alone(async () => {
      const { access_token: token } = await read(await send(`/auth/${kind}`, { method: "POST", body: { username, password } }));
      localStorage.setItem(NAME, JSON.stringify({ subject: subjectOf(token), name: username }));
      return token;
    });
    this.#become(token);
    TABS.postMessage({ subject: this.subject });
  }

  async leave() {
    try {
      await this.fetch("/auth/logout", { method: "POST" });
    } catch (problem) {
      if (problem.status !== 401) throw problem;
    }
    TABS.postMessage({ subject: null });
    this.dispatchEvent(new Event("left"));
  }

  /** Fetch an access token by the cookie. True if the account that signed in on this page is signed in; raises Problem if that cannot be known, or at the login of another account. */
  refresh() {
    this.#refreshing ??= alone(() => this.#refresh()).finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  async #refresh() {
    const before = this.subject;
    const response = await send("/auth/refresh", { method: "POST" });
    if (response.status >= 500 || response.status === 429) throw await problemOf(response);
    const token = response.ok ? (await response.json()).access_token : null;
    // A page on another port or a sibling domain can replace the cookie by that of its own login.
    if (token !== null && subjectOf(token) !== entered()?.subject) {
      this.#become(null, FOREIGN);
      throw new Problem(401, FOREIGN);
    }
    if (token !== null || before !== null) this.#become(token, SIGNED_OUT);
    return token !== null;
  }

  #become(token, why = "") {
    const before = this.subject;
    this.#token = token;
    if (this.subject !== before) this.dispatchEvent(new CustomEvent("change", { detail: { why } }));
  }

  /** Send a request, with the body as JSON. Returns a successful response; raises Problem for any other. */
  async fetch(path, options = {}) {
    const [token, subject] = [this.#token, this.subject];
    let response = await send(path, options, token);
    if (response.status === 401) {
      const isSignedIn = this.#token === token ? await this.refresh() : this.#token !== null; // another request may have refreshed it
      if (!isSignedIn || (subject !== null && this.subject !== subject)) throw new Problem(401, SIGNED_OUT);
      response = await send(path, options, this.#token);
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  async json(path, options = {}) {
    return read(await this.fetch(path, options));
  }
})();

async function send(path, { body, headers, ...options }, token = null) {
  const all = new Headers(headers);
  if (token !== null) all.set("Authorization", `Bearer ${token}`);
  if (body !== undefined) all.set("Content-Type", "application/json");
  try {
    return await fetch(path, { ...options, headers: all, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, NETWORK);
  }
}

async function read(response) {
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new Problem(0, NETWORK);
  }
}

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  const detail = typeof said.detail === "string" ? said.detail : "";
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const retryAfterS = Number.isFinite(wait) ? wait : null;
  return new Problem(response.status, sentence(response.status, detail, retryAfterS), retryAfterS);
}

function sentence(status, detail, waitS) {
  const again = waitS === null ? "Try again in a moment." : `Try again in ${duration(waitS)}, at ${clock(waitS)}.`;
  if (status === 429) return `${detail || "Too many requests."} ${again}`;
  if (status === 413) return "The message is too long. Shorten it and try again.";
  if (status >= 500) return `The server is having trouble. Nothing you typed is lost. ${again}`;
  return detail || `The server rejected the request (${status}). Reload the page and try again.`;
}

const duration = (s) => (s < 100 ? `${s} ${s === 1 ? "second" : "seconds"}` : `${Math.ceil(s / 60)} minutes`);
const clock = (s) => new Date(Date.now() + 1000 * s).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Read the subject, without verifying the token: the server does that for each request. */
function subjectOf(token) {
  try {
    return JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).sub ?? null;
  } catch {
    return null;
  }
}

/** Return the subject and name of the last sign-in on this page, in any tab; null if there is none, or it cannot be read. */
function entered() {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "null");
  } catch {
    return null;
  }
}

/** Run `work` in one tab at a time: each use of the cookie replaces it, and a second use of the old one ends the login. */
function alone(work) {
  return navigator.locks ? navigator.locks.request("treadle-refresh", work) : work();
}
