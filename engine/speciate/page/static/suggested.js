// Merges that the events speak for.

import { halted, merge } from "./actions.js";
import { Poll, get, naming } from "./api.js";
import { Blank } from "./blank.js";
import { h, keep, say } from "./dom.js";
import { called, likelier, many, nats, verdict } from "./format.js";
import { concerns, live } from "./live.js";

const REFRESH_SECONDS = 15;
const MOST = 8;

/** One suggestion, with a button. */
function suggestion(one, context) {
  const to = (id, label) => h("a", { href: context.href(`/categories/${id}`), title: label }, called(id, label));
  const why = halted();
  const [keeping, going] = [
    { id: one.keep, label: one.keep_label, count: one.keep_count },
    { id: one.absorb, label: one.absorb_label, count: one.absorb_count },
  ];
  return h(
    "li",
    { class: "suggestion", "data-keep": one.keep, "data-absorb": one.absorb },
    h(
      "div",
      {},
      h(
        "p",
        {},
        to(one.absorb, one.absorb_label),
        h("span", { class: "quiet" }, " into "),
        to(one.keep, one.keep_label),
      ),
      h(
        "p",
        { class: "quiet small" },
        `${likelier(one.log_bayes_factor)}: ${verdict(one.log_bayes_factor)} (${nats(one.log_bayes_factor)})`,
      ),
    ),
    h(
      "button",
      {
        type: "button",
        disabled: Boolean(why),
        title: why || null,
        "aria-label": `Merge ${one.absorb} into ${one.keep}`,
        click: () => merge(context.universe, keeping, going, one.log_bayes_factor),
      },
      "Merge",
    ),
  );
}

function list(host, suggestions, context) {
  keep(
    host,
    suggestions,
    (one) => `${one.keep} ${one.absorb}`,
    (one) => JSON.stringify([one, halted()]),
    (one) => suggestion(one, context),
  );
  host.hidden = !suggestions.length;
}

/** The panel of a category: merges that the events speak for, and folded away those they speak against. */
export class Merges {
  constructor(context) {
    this._context = context;
    this._suggestions = [];
    this._for = h("ul", {});
    this._none = h("p", { class: "empty" }, "None: the events speak against any merge.");
    this._against = h("ul", {});
    this._count = h("summary", {});
    this._folded = h("details", { id: "merges-against" }, this._count, this._against);
    this.element = h(
      "section",
      { class: "panel merges", "aria-labelledby": "merges-title" },
      h("h2", { id: "merges-title" }, "Rather one with another?"),
      this._for,
      this._none,
      this._folded,
    );
  }

  show(suggestions) {
    this._suggestions = suggestions;
    this.draw();
  }

  /** Once more as it is: whether anything can be sent may have changed. */
  draw() {
    const [good, bad] = [true, false].map((wanted) =>
      this._suggestions.filter((one) => one.log_bayes_factor > 0 === wanted),
    );
    this.element.hidden = !this._suggestions.length;
    list(this._for, good, this._context);
    this._none.hidden = good.length > 0;
    list(this._against, bad, this._context);
    this._folded.hidden = !bad.length;
    say(this._count, `${many(bad.length, "merge")} that the events speak against`);
  }
}

/** The panel of the overview. */
export class Suggested {
  constructor(context) {
    this._context = context;
    this._answer = null;
    this._blank = new Blank();
    this._list = h("ul", { id: "suggestions" });
    this._empty = h("p", { class: "empty", hidden: true });
    this.element = h(
      "section",
      { class: "panel suggested-panel", "aria-labelledby": "suggested-title" },
      h("h2", { id: "suggested-title" }, "Rather one than two?"),
      this._list,
      this._empty,
      this._blank.element,
    );
    this._ends = [
      live.on("link", () => this._answer && this._draw()),
      live.on("news", (news) => {
        if (news.some((one) => one.kind === "control" && concerns(context.universe, one))) this._poll.poke();
      }),
    ];
    this._poll = new Poll(
      REFRESH_SECONDS,
      (signal) =>
        live.state.suggests
          ? get("/api/suggestions", naming(context.universe), signal)
          : Promise.resolve({ suggestions: [], examined: 0 }),
      (answer) => {
        this._answer = answer;
        this._blank.fill();
        this._draw();
      },
    );
  }

  close() {
    this._ends.forEach((end) => end());
    this._blank.close();
    this._poll.stop();
  }

  _draw() {
    const { suggestions, examined } = this._answer;
    const found = suggestions.slice(0, MOST);
    list(this._list, found, this._context);
    this._empty.hidden = found.length > 0;
    say(
      this._empty,
      examined < 2
        ? "There is nothing to compare yet."
        : `None: the events of ${many(examined, "category", "categories")} speak against any merge.`,
    );
  }
}
