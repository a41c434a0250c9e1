// What the server tells of its own accord: one event stream, and what has come over it.

import { Refused, get } from "./api.js";

const REMEMBERED = 300;
const PAST_SECONDS = 120;
const SILENCE_SECONDS = 12;
const LONGEST_PAUSE_SECONDS = 30;

/** Whether news concern a universe. */
export const concerns = ({ task, stream }, one) =>
  one.task === task && (stream === null || one.stream === null || one.stream === stream);

/** What an answer is, which list of the tidings it may have come in: controls that were refused are rejections. */
const KINDS = { "assignment.v1": "birth", "control.v1": "control", "rejection.v1": "rejection" };
const sign = (one) => JSON.stringify([one.kind, one.task, one.sequence, one.id]);

/** Births, controls and rejections since the page was opened, newest first; and how the pipeline is. */
class Live extends EventTarget {
  constructor() {
    super();
    /** StateView, once there is one. */
    this.state = null;
    /** "connecting", "open", "lost" or "locked". */
    this.link = "connecting";
    this.retryAt = 0;
    /** What the server said instead of an answer. */
    this.why = "";
    /** The last states, oldest first. */
    this.past = [];
    this.news = [];
    /** Kept open although nobody looks, while an answer is waited for. */
    this.awaited = () => false;
    this._source = null;
    this._failures = 0;
    this._greeted = false;
    this._heard = 0;
    this._timer = 0;
    this._opening = false;
    document.addEventListener("visibilitychange", () => this._looked());
    setInterval(() => this._watch(), 1000);
  }

  /** Whether it is no wonder that there is no connection: the last word was that the run ends. */
  get ended() {
    return this.link === "lost" && !this.why && this.state?.condition === "stopping";
  }

  /** Listen; returns what ends it. */
  on(kind, then) {
    const heard = (event) => then(event.detail);
    this.addEventListener(kind, heard);
    return () => this.removeEventListener(kind, heard);
  }

  /** The news that concern a universe. */
  about(universe) {
    return this.news.filter((one) => concerns(universe, one));
  }

  /** What has become of categories that were changed by hand: another, themselves, or null if they are gone. */
  fates(universe) {
    const changes = this.about(universe)
      .reverse()
      .flatMap((one) => one.relabels ?? []);
    return new Map(changes.map((one) => [one.category, one.becomes]));
  }

  /** Connect, or try again at once. */
  async start() {
    clearTimeout(this._timer);
    if (this._opening || (document.visibilityState !== "visible" && !this.awaited())) return;
    this._opening = true;
    this._close();
    try {
      const state = await get("/api/state");
      if (this.link === "locked") this._turn("connecting");
      this._takeState(state);
      this._open();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 401) this.lock();
      else this._lose(error.status ? error.message : "");
    } finally {
      this._opening = false;
    }
  }

  /** A session is needed: nothing is asked until there is one. */
  lock() {
    this._close();
    clearTimeout(this._timer);
    this._turn("locked");
  }

  _open() {
    const source = new EventSource("/api/events");
    this._source = source;
    this._greeted = false;
    this._heard = Date.now();
    source.addEventListener("tidings", (event) => this._take(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      if (source === this._source) this._lose();
    });
  }

  _close() {
    this._source?.close();
    this._source = null;
  }

  _lose(why = "") {
    this._close();
    this.why = why;
    const pause = Math.min(LONGEST_PAUSE_SECONDS, 2 ** this._failures) * (0.8 + 0.4 * Math.random());
    this._failures += 1;
    this.retryAt = Date.now() + pause * 1000;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.start(), pause * 1000);
    this._turn("lost");
  }

  _looked() {
    if (document.visibilityState !== "visible") {
      if (!this.awaited()) this._close();
    } else if (!this._source && this.link !== "locked") this.start();
  }

  _watch() {
    if (document.visibilityState !== "visible" && !this.awaited()) this._close();
    if (this._source && Date.now() - this._heard > SILENCE_SECONDS * 1000) this._lose();
    if (this.link === "lost") this._tell("link");
  }

  _take(tidings) {
    this._heard = Date.now();
    this._failures = 0;
    // The first message of a connection tells again what happened before it.
    const again = !this._greeted;
    this._greeted = true;
    this._turn("open");
    this._takeState(tidings.state);
    const known = new Set(this.news.map(sign));
    const news = [...tidings.births, ...tidings.controls, ...tidings.rejections]
      .map(({ task, answer }) => ({ ...answer, task, kind: KINDS[answer.type] }))
      .filter((one) => !known.has(sign(one)) && known.add(sign(one)));
    if (!news.length) return;
    news.sort((one, other) => other.sequence - one.sequence);
    this.news = [...news, ...this.news].slice(0, REMEMBERED);
    this._tell("news", news);
    if (!again) this._tell("fresh", news);
  }

  _takeState(state) {
    this.state = state;
    this.past = [...this.past, state].slice(-PAST_SECONDS);
    this._tell("state", state);
  }

  _turn(link) {
    const changed = this.link !== link;
    this.link = link;
    if (changed) this._tell("link");
  }

  _tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}

export const live = new Live();

const UNREADY = {
  away: ["away", "A service is away"],
  restoring: ["wait", "Restoring"],
  waiting: ["wait", "Not ready yet"],
};

/** How the pipeline is: a word for the mark beside it, and words. */
export function condition() {
  const { state, link } = live;
  if (link === "locked") return ["wait", "A token is needed", ""];
  if (live.ended) return ["stopped", "The run has ended", "the figures are as of the last message"];
  if (link === "lost")
    return [
      "lost",
      live.why ? "The page cannot tell" : "Connection lost",
      live.why || "the figures are as of the last message",
    ];
  if (!state) return ["wait", "Connecting", ""];
  if (!state.running) return ["stopped", "Stopped", "this is the state it was left in"];
  if (state.condition === "running") return ["well", "Running and well", ""];
  if (state.condition === "stopping") return ["stopped", "Stopping", "what was read is finished first"];
  const [mark, words] = UNREADY[state.condition];
  return [mark, words, state.unready.join("; ")];
}
