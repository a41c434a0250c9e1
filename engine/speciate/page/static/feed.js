// What has happened, newest first: births, changes by hand, rejections.

import { Poll, get, naming } from "./api.js";
import { Blank } from "./blank.js";
import { fit, h, keep, say } from "./dom.js";
import { called, capital, clock, deed, titled, visible, whole } from "./format.js";
import { concerns, live } from "./live.js";

const KINDS = { birth: "Births", control: "By hand", rejection: "Rejections" };
const MARKS = { birth: "✦", control: "✎", rejection: "!" };
const MOST = 60;
/** So many new rows are seen to arrive; of more than that none would be seen for the moving. */
const MOST_ARRIVING = 3;
const REFRESH_SECONDS = 5;

/** The picture of the event that founded a category, or else of another of its events. */
function portrait({ born, exemplars }) {
  const pictured = exemplars.filter((one) => one.thumbnail);
  return (pictured.find((one) => one.sequence === born) ?? pictured[0])?.thumbnail;
}

/** The panel. Births come from the categories there are, so that a reload shows them too; the rest since it is open. */
export class Feed {
  constructor(context) {
    this._context = context;
    this._births = null;
    this._blank = new Blank();
    this._list = h("ol", {
      class: "feed",
      id: "feed",
      tabindex: "0",
      hidden: true,
      "aria-label": "What has happened, newest first",
    });
    this._empty = h("p", { class: "empty", hidden: true });
    const given = context.parameters.get("feed")?.split(",");
    this._chosen = new Set(Object.keys(KINDS).filter((kind) => given?.includes(kind) ?? true));
    this._filters = h(
      "div",
      { class: "filters", role: "group", "aria-label": "Show" },
      Object.keys(KINDS).map((kind) => this._filter(kind)),
    );
    this.element = h(
      "section",
      { class: "panel feed-panel", "aria-labelledby": "feed-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "feed-title" }, "Newest"), this._filters),
      this._list,
      this._empty,
      this._blank.element,
    );
    this._end = live.on("news", (news) => {
      this._arrive(this._draw());
      if (news.some((one) => one.kind !== "rejection" && concerns(context.universe, one))) this._poll.poke();
    });
    this._poll = new Poll(
      REFRESH_SECONDS,
      (signal) =>
        get(
          "/api/categories",
          { ...naming(context.universe), kind: "born", sort: "born", order: "desc", limit: MOST },
          signal,
        ),
      (page) => {
        const first = this._births === null;
        this._births = page.categories;
        this._blank.fill();
        const added = this._draw();
        if (!first) this._arrive(added);
      },
    );
  }

  close() {
    this._end();
    this._blank.close();
    this._poll.stop();
  }

  _filter(kind) {
    const button = h(
      "button",
      { type: "button", class: "chip", "aria-pressed": String(this._chosen.has(kind)) },
      h("span", { "aria-hidden": "true" }, `${MARKS[kind]} `),
      KINDS[kind],
    );
    button.addEventListener("click", () => {
      if (!this._chosen.delete(kind)) this._chosen.add(kind);
      button.setAttribute("aria-pressed", String(this._chosen.has(kind)));
      const all = this._chosen.size === Object.keys(KINDS).length;
      this._context.settle("/", { feed: all ? "" : [...this._chosen].join(",") || "none" });
      this._draw();
    });
    return button;
  }

  _items() {
    const { universe } = this._context;
    const fates = live.fates(universe);
    const births = this._births ?? [];
    const there = new Set(births.map((card) => card.id));
    const fresh = live
      .about(universe)
      .filter((one) => one.kind !== "birth" || !there.has(one.category))
      .map((one) =>
        one.kind === "birth" && fates.has(one.category) ? { ...one, fate: fates.get(one.category) } : one,
      );
    const born = births
      .filter((card) => card.born !== null)
      .map((card) => ({
        kind: "birth",
        sequence: card.born,
        category: card.id,
        label: card.label,
        time: card.born_time,
        thumbnail: portrait(card),
      }));
    return [...fresh, ...born]
      .filter((one) => this._chosen.has(one.kind))
      .sort((one, other) => other.sequence - one.sequence)
      .slice(0, MOST);
  }

  /** Show what there is now; the rows that were not there before. */
  _draw() {
    const items = this._items();
    const added = keep(
      this._list,
      items,
      (one) => (one.kind === "birth" ? `birth ${one.category}` : `${one.kind} ${one.sequence} ${one.id}`),
      (one) => (one.kind === "birth" ? JSON.stringify([one.label, one.thumbnail ?? null, one.fate]) : ""),
      (one) => this._item(one),
    );
    this._list.hidden = !items.length;
    // Before there is an answer there is nothing to be said.
    this._empty.hidden = items.length > 0 || this._births === null;
    say(
      this._empty,
      this._chosen.has("birth") ? "No category has been discovered yet." : "Nothing since the page was opened.",
    );
    return added;
  }

  _arrive(rows) {
    if (rows.length > MOST_ARRIVING) return;
    for (const row of rows) {
      row.classList.add("arriving");
      row.addEventListener("animationend", () => row.classList.remove("arriving"), { once: true });
    }
  }

  _item(one) {
    const when = [one.time ? clock(one.time) : null, `record ${whole(one.sequence)}`].filter(Boolean).join(" · ");
    const element = h(
      "li",
      { "data-kind": one.kind },
      this._mark(one),
      h("div", { class: "feed-words" }, this._words(one), h("p", { class: "quiet small" }, when)),
    );
    if (one.kind === "birth") element.dataset.category = String(one.category);
    return element;
  }

  _mark(one) {
    const mark = h("span", { class: "feed-mark", "aria-hidden": "true" });
    return one.thumbnail
      ? fit(mark, h("img", { src: one.thumbnail, alt: "", loading: "lazy" }))
      : fit(mark, MARKS[one.kind]);
  }

  _words(one) {
    const to = (id, text) => h("a", { href: this._context.href(`/categories/${id}`) }, text);
    if (one.kind === "birth" && one.fate !== undefined && one.fate !== one.category) {
      const fate = one.fate === null ? "forgotten since" : to(one.fate, `merged into ${one.fate} since`);
      return h("p", {}, `${capital(called(one.category, one.label))}, `, fate);
    }
    if (one.kind === "birth")
      return h(
        "p",
        {},
        h("span", { class: "unseen" }, "Birth: "),
        to(one.category, titled(one.category, one.label)),
        visible(one.label) === null ? null : h("span", { class: "quiet" }, ` ${one.category}`),
      );
    if (one.kind === "control") {
      const { control } = one;
      const about = control.keep ?? (control.type === "forget.v1" ? null : control.category);
      const words = capital(deed(control));
      return h("p", {}, about === null || about === undefined ? words : to(about, words));
    }
    return h(
      "p",
      { class: "feed-rejection" },
      h("strong", {}, `Rejected by the ${one.stage}: `),
      h("bdi", {}, one.message),
    );
  }
}
