// Requests to the page's server.

/** A request that was refused; `status` is 0 if there was no answer at all. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const TIMEOUT_SECONDS = 15;

let locked = () => {};

/** Whom to tell that a session is needed. */
export function onLocked(then) {
  locked = then;
}

async function ask(path, { signal, ...options }) {
  const late = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
  const ends = signal ? AbortSignal.any([signal, late]) : late;
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", signal: ends, ...options });
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

/** What the views ask for and do not get, each until it works again. */
class Troubles extends EventTarget {
  constructor() {
    super();
    this._reasons = new Map();
  }

  /** Why, in the words of the one that failed first; empty if all is well. */
  get why() {
    return [...this._reasons.values()][0] ?? "";
  }

  note(whose, error) {
    this._reasons.set(whose, error.message);
    this.dispatchEvent(new Event("change"));
  }

  over(whose) {
    if (this._reasons.delete(whose)) this.dispatchEvent(new Event("change"));
  }

  /** What failed while there was no connection says nothing of now. */
  clear() {
    this._reasons.clear();
    this.dispatchEvent(new Event("change"));
  }
}

export const troubles = new Troubles();

/** Asks again and again: one request at a time, none while nobody looks. `failed` says whether it knows what to do. */
export class Poll {
  constructor(seconds, request, then, failed = () => false) {
    this.seconds = seconds;
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
    troubles.over(this);
  }

  async _next() {
    if (this._stopped || this._under || document.visibilityState !== "visible") return;
    clearTimeout(this._timer);
    this._again = false;
    this._under = new AbortController();
    try {
      const answer = await this._request(this._under.signal);
      if (this._stopped) return;
      troubles.over(this);
      this._then(answer);
    } catch (error) {
      if (this._stopped) return;
      if (!(error instanceof Refused)) throw error;
      if (this._failed(error)) troubles.over(this);
      else troubles.note(this, error);
    } finally {
      this._under = null;
      if (this._again) this._next();
      else if (!this._stopped) this._timer = setTimeout(() => this._next(), this.seconds * 1000);
    }
  }
}
