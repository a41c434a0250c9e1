// Merges that the events speak for.

import { barred, merge } from "./actions.js";
import { Poll, get, naming } from "./api.js";
import { h, keep, say } from "./dom.js";
import { called, likelier, many, nats, verdict } from "./format.js";
import { concerns, live } from "./live.js";

const REFRESH_SECONDS = 15;
const MOST = 8;

/** One suggestion, with a button. */
export function suggestion(one, context) {
  const to = (id, label) => h("a", { href: context.href(`/categories/${id}`), title: label }, called(id, label));
  const why = barred();
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

/** The panel of the overview. */
export class Suggested {
  constructor(context) {
    this._list = h("ul", { class: "suggestions", id: "suggestions" });
    this._empty = h("p", { class: "empty" });
    this.element = h(
      "section",
      { class: "panel suggested-panel", "aria-labelledby": "suggested-title" },
      h("h2", { id: "suggested-title" }, "Rather one than two?"),
      this._list,
      this._empty,
    );
    this._end = live.on("news", (news) => {
      if (news.some((one) => one.kind === "control" && concerns(context.universe, one))) this._poll.poke();
    });
    this._poll = new Poll(
      REFRESH_SECONDS,
      (signal) =>
        live.state.suggests
          ? get("/api/suggestions", naming(context.universe), signal)
          : Promise.resolve({ suggestions: [], examined: 0 }),
      (answer) => this._draw(answer, context),
    );
  }

  close() {
    this._end();
    this._poll.stop();
  }

  _draw(answer, context) {
    const found = answer.suggestions.slice(0, MOST);
    keep(
      this._list,
      found,
      (one) => `${one.keep} ${one.absorb}`,
      (one) => JSON.stringify([one, barred()]),
      (one) => suggestion(one, context),
    );
    this._list.hidden = !found.length;
    this._empty.hidden = found.length > 0;
    say(
      this._empty,
      answer.examined < 2
        ? "There is nothing to compare yet."
        : `None: the events of ${many(answer.examined, "category", "categories")} speak against any merge.`,
    );
  }
}
