// One category: what it is, what is near it, and changing it by hand.

import { barred, forget, halted } from "./actions.js";
import { Poll, get, naming } from "./api.js";
import { Blank } from "./blank.js";
import { badge } from "./card.js";
import { Chart } from "./chart.js";
import { fit, h, keep, say } from "./dom.js";
import { capital, clock, figures, lastSeen, short, titled, whole } from "./format.js";
import { concerns, live } from "./live.js";
import { mergeInto } from "./picking.js";
import { Plane } from "./plane.js";
import { activity } from "./plots.js";
import { Naming } from "./renaming.js";
import { Merges } from "./suggested.js";

const REFRESH_SECONDS = 4;
const GONE_SECONDS = 30;

function facts(card, sequence) {
  const last = lastSeen(card, sequence);
  return [
    [
      "Events",
      short(card.count),
      card.seen === card.count ? "all from the stream" : `${whole(card.seen)} from the stream`,
    ],
    [
      "Last seen",
      card.last_sequence === null ? "never" : last.replace(/^seen /, ""),
      card.last_time === null ? "" : clock(card.last_time),
    ],
    [
      "Born",
      card.born === null ? (card.known ? "was known" : "–") : `record ${whole(card.born)}`,
      card.born_time === null ? "" : clock(card.born_time),
    ],
    [
      "Spread",
      card.spread === null ? "–" : figures(card.spread),
      card.spread === null ? "its density has no measure" : "in the density's measure",
    ],
  ];
}

/** The parts of the view, and how they show a CategoryView. */
class View {
  constructor(main, context, id) {
    this._context = context;
    this._id = id;
    this._naming = new Naming(context);
    this._merge = h(
      "button",
      { type: "button", id: "merge", click: () => mergeInto(context, this._view) },
      "Merge into …",
    );
    this._forget = h(
      "button",
      { type: "button", id: "forget", class: "danger", click: () => forget(context.universe, this._view.card) },
      "Forget …",
    );
    this._badge = h("span", {});
    this._barred = h("p", { class: "barred" });
    this._facts = h("dl", { class: "facts" });
    this._plane = new Plane();
    this._exemplars = h("ul", { class: "exemplars", id: "exemplars" });
    this._nearest = h("tbody", {});
    this._merges = new Merges(context);
    this._blank = new Blank();
    this._gone = h("div", { id: "gone", hidden: true });
    this._build(main);
  }

  _build(main) {
    const panel = (id, title, kind, ...children) =>
      h("section", { class: `panel ${kind}`, "aria-labelledby": id }, h("h2", { id }, title), children);
    const active = panel("activity-title", "Its events over the stream", "plot activity");
    this._near = panel(
      "nearest-title",
      "Nearest categories",
      "near",
      h(
        "table",
        { class: "wide" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Category", "Events", "Log density of this centre"].map((one) => h("th", { scope: "col" }, one)),
          ),
        ),
        this._nearest,
      ),
    );
    this._body = h(
      "div",
      { class: "category" },
      this._facts,
      h("div", { class: "category-side" }, this._plane.element, active),
      h(
        "div",
        { class: "category-side" },
        panel("exemplars-title", "Exemplars", "exemplars-panel", this._exemplars),
        this._near,
        this._merges.element,
      ),
    );
    this._head = h(
      "div",
      { class: "view-head category-head" },
      this._naming.element,
      this._badge,
      h("div", { class: "buttons" }, this._naming.button, this._merge, this._forget),
      this._barred,
    );
    const back = this._context.href("/categories", this._context.filters);
    main.append(
      h("p", { class: "crumb" }, h("a", { id: "back", href: back }, "← Categories")),
      this._head,
      this._gone,
      this._blank.element,
      this._body,
    );
    this._chart = new Chart(active, { label: "Events of this category over the stream", name: "activity" });
    this._body.hidden = true;
    this._naming.wait(this._id);
    this.bar();
  }

  show(view) {
    const first = !this._view;
    this._view = view;
    const { card } = view;
    const { sequence } = this._context.universe;
    this._blank.fill();
    this._body.hidden = false;
    this._naming.show(card);
    fit(this._badge, badge(card.known));
    if (first)
      fit(
        this._facts,
        facts(card, sequence).map(([name]) =>
          h("div", {}, h("dt", {}, name), h("dd", {}, h("span", {}), h("small", { class: "quiet" }))),
        ),
      );
    facts(card, sequence).forEach(([, value, note], n) => {
      const [large, small] = this._facts.children[n].lastElementChild.children;
      say(large, capital(value));
      say(small, note);
    });
    this._plane.show(view);
    this._show_lists(view);
    if (card.activity.length) this._chart.show(activity(view, sequence));
    this.bar();
  }

  _show_lists(view) {
    const { context, card } = { context: this._context, card: view.card };
    keep(
      this._exemplars,
      card.exemplars,
      (one) => one.sequence,
      (one) => one.thumbnail ?? one.id,
      (one) =>
        h(
          "li",
          {},
          one.thumbnail && h("img", { src: one.thumbnail, alt: `Event ${one.id}` }),
          h("p", { class: one.thumbnail ? "identifier small" : "identifier", title: one.id }, one.id),
        ),
    );
    this._near.hidden = !view.nearest.length;
    keep(
      this._nearest,
      view.nearest,
      (one) => one.category,
      (one) => JSON.stringify(one),
      (one) =>
        h(
          "tr",
          { "data-category": one.category },
          h(
            "th",
            { scope: "row" },
            h(
              "a",
              { href: context.href(`/categories/${one.category}`), title: one.label },
              titled(one.category, one.label),
            ),
            " ",
            badge(one.known),
          ),
          h("td", {}, whole(one.count)),
          h("td", {}, `${figures(one.log_density)} nats`),
        ),
    );
    this._merges.show(view.suggestions);
  }

  /** Say why nothing can be changed, if so; without a connection it cannot either, which is said elsewhere. */
  bar() {
    const why = barred();
    say(this._barred, why && `Nothing can be changed by hand: ${why}`);
    this._barred.hidden = !why;
    const can = !halted() && Boolean(this._view);
    this._naming.enable(can);
    this._merge.disabled = this._forget.disabled = !can;
    this._merges.draw();
  }

  /** It is not there, or not any more. */
  gone(words, becomes = null) {
    const sign = JSON.stringify([words, becomes]);
    if (!this._gone.hidden && this._gone.dataset.sign === sign) return;
    this._gone.dataset.sign = sign;
    const held = document.activeElement;
    this._blank.fill();
    this._body.hidden = true;
    this._head.hidden = true;
    this._gone.hidden = false;
    const now =
      becomes === null
        ? null
        : [" It is now ", h("a", { href: this._context.href(`/categories/${becomes}`) }, `category ${becomes}`), "."];
    const title = h("h1", { tabindex: "-1" }, `Category ${this._id}`);
    const lost = [this._head, this._gone, this._body].some((one) => one.contains(held));
    fit(this._gone, title, h("p", { class: "empty" }, words, now));
    if (lost || held === document.body) title.focus({ preventScroll: true });
  }

  back() {
    const held = this._gone.contains(document.activeElement);
    this._head.hidden = false;
    this._gone.hidden = true;
    if (held) this._naming.focus();
  }

  close() {
    this._blank.close();
    this._chart.close();
  }
}

/** Open the view; what it gives back closes it. */
export function openCategory(main, context, id) {
  const view = new View(main, context, id);
  const became = () => {
    const fate = live.fates(context.universe).get(id) ?? null;
    return fate === id ? null : fate;
  };
  const poll = new Poll(
    REFRESH_SECONDS,
    (signal) => get(`/api/categories/${id}`, naming(context.universe), signal),
    (answer) => {
      poll.seconds = REFRESH_SECONDS;
      view.back();
      view.show(answer);
    },
    (error) => {
      if (error.status !== 404) return false;
      poll.seconds = GONE_SECONDS;
      view.gone(`There is no category ${id}, or not any more.`, became());
      return true;
    },
  );
  const heard = (all) => {
    const news = all.filter((one) => concerns(context.universe, one));
    // Whoever looks at a category while it is merged goes along with it.
    const now = became();
    if (now !== null && news.some((one) => one.control?.absorb === id)) context.go(`/categories/${now}`);
    else if (news.some((one) => one.kind === "control")) poll.poke();
  };
  const ends = [live.on("fresh", heard), live.on("state", () => view.bar()), live.on("link", () => view.bar())];
  return {
    close() {
      ends.forEach((end) => end());
      poll.stop();
      view.close();
    },
  };
}
