// Who is signed in, and every request. The access token is in memory only; a new one is fetched by the cookie, once for however many requests need it.
// Errors are `Problem`s, whose message is a sentence for a person. What requests mean is not here.

const NETWORK = "There is no connection to the server. Nothing you typed is lost; try again when it is back.";
const SIGNED_OUT = "You were signed out. Sign in again to go on; what you typed is still there.";
const FOREIGN = "This browser holds the login of an account that was not signed in to on this page. Sign in again to go on.";
const NAME = "treadle-name"; // in localStorage: whom the page greets after it was loaded again
const TABS = new BroadcastChannel("treadle-session");

export class Problem extends Error {
  /** `status` is 0 where no answer came. */
  constructor(status, message, retryAfterS = null) {
    super(message);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

export const session = new (class extends EventTarget {
  #token = null;
  #refreshing = null;

  /** Tells of `change`, where somebody else or nobody is signed in now, and of `left`, where the person signed out, here or in another tab. */
  constructor() {
    super();
    TABS.onmessage = ({ data }) => {
      if (data.subject === null) this.dispatchEvent(new Event("left"));
      else if (data.subject !== this.subject) this.refresh().catch(() => {});
    };
  }

  /** Whom the token names; null where nobody is signed in. */
  get subject() {
    return subjectOf(this.#token);
  }

  /** Whether somebody signed in with this browser and not out again: without, there is no cookie to ask with. */
  get isKnown() {
    return localStorage.getItem(NAME) !== null;
  }

  /** As it was typed in this browser; empty where it was not. */
  get name() {
    const kept = entered();
    return kept?.subject === this.subject ? kept.name : "";
  }

  /** Raises Problem. `kind` is login or register. The cookie and the kept subject change under one lock: a refresh never sees one without the other. */
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

  /** The response, of a status that is good. Raises Problem. A body is sent as JSON. */
  async fetch(path, options = {}) {
    const [token, subject] = [this.#token, this.subject];
    let response = await send(path, options, token);
    if (response.status === 401) {
      const isSignedIn = this.#token === token ? await this.refresh() : this.#token !== null; // another request may have asked meanwhile
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
  if (status === 429) return `${detail || "That was too much at once."} ${again}`;
  if (status === 413) return "That is too long to be sent. Shorten it, and try again.";
  if (status >= 500) return `The server is having trouble. Nothing you typed is lost. ${again}`;
  return detail || `The server said no (${status}). Load the page again, and try once more.`;
}

const duration = (s) => (s < 100 ? `${s} ${s === 1 ? "second" : "seconds"}` : `${Math.ceil(s / 60)} minutes`);
const clock = (s) => new Date(Date.now() + 1000 * s).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Read, not verified: the server does that with each request. */
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

/** Each use of the cookie makes a new one, and the old one again ends the login: tabs take turns. */
function alone(work) {
  return navigator.locks ? navigator.locks.request("treadle-refresh", work) : work();
}
