// Requests to the page's server.

/** A request that was refused; `status` is 0 if there was no answer at all. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let locked = () => {};

/** Whom to tell that a session is needed. */
export function onLocked(then) {
  locked = then;
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the page does not answer");
  }
  if (answer.status === 401 && path.startsWith("/api/")) locked();
  if (!answer.ok) throw new Refused(answer.status, await reason(answer));
  if (answer.status === 204) return null;
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the page's answer broke off");
  }
}

async function reason(answer) {
  const text = await answer.text().catch(() => "");
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text.trim() || `the page answered ${answer.status}`;
  }
}

/** GET as JSON; parameters that are null are left out. */
export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return ask(query ? `${path}?${query}` : path, { signal });
}

/** POST JSON. */
export function post(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** The parameters that name a universe. */
export const naming = (universe) => ({ task: universe.task, stream: universe.stream });

/** Asks again and again: one request at a time, none while nobody looks. */
export class Poll {
  constructor(seconds, request, then, failed = () => {}) {
    this._milliseconds = seconds * 1000;
    this._request = request;
    this._then = then;
    this._failed = failed;
    this._timer = 0;
    this._under = null;
    this._again = false;
    this._stopped = false;
    this._seen = () => {
      if (document.visibilityState === "visible") this.poke();
    };
    document.addEventListener("visibilitychange", this._seen);
    this.poke();
  }

  /** Ask now; if a request is under way, once more after it. */
  poke() {
    this._again = true;
    this._next();
  }

  stop() {
    this._stopped = true;
    clearTimeout(this._timer);
    document.removeEventListener("visibilitychange", this._seen);
    this._under?.abort();
  }

  async _next() {
    if (this._stopped || this._under || document.visibilityState !== "visible") return;
    clearTimeout(this._timer);
    this._again = false;
    this._under = new AbortController();
    try {
      const answer = await this._request(this._under.signal);
      if (!this._stopped) this._then(answer);
    } catch (error) {
      if (this._stopped) return;
      if (error instanceof Refused) this._failed(error);
      else throw error;
    } finally {
      this._under = null;
      if (this._again) this._next();
      else if (!this._stopped) this._timer = setTimeout(() => this._next(), this._milliseconds);
    }
  }
}
