// One category in brief.

import { spark } from "./chart.js";
import { fit, h, s, say } from "./dom.js";
import { about, figures, lastSeen, titled, visible, whole } from "./format.js";

const PICTURES = 4;
const IDENTIFIERS = 4;

/** Whether it was known or is discovered, in a word and a sign. */
export function badge(known) {
  return h(
    "span",
    { class: `badge ${known ? "known" : "born"}` },
    h("span", { "aria-hidden": "true" }, known ? "■ " : "✦ "),
    known ? "known" : "discovered",
  );
}

/** Pictures of a category, or the ids of events where there are none. */
function examples(exemplars) {
  const pictured = exemplars.filter((one) => one.thumbnail).slice(0, PICTURES);
  if (pictured.length)
    return pictured.map((one) => h("img", { src: one.thumbnail, alt: "", loading: "lazy", decoding: "async" }));
  const list = exemplars.slice(0, IDENTIFIERS).map((one) => h("span", { class: "identifier" }, one.id));
  return list.length ? list : [h("span", { class: "identifier none" }, "no events kept")];
}

/** A card that can show another state of its category without being made anew. */
export class Card {
  constructor(context) {
    this._context = context;
    this._signs = {};
    this._examples = h("div", { class: "examples", "aria-hidden": "true" });
    this._name = h("a", { class: "card-name" });
    this._badge = h("span", {});
    this._number = h("span", { class: "number" });
    this._facts = h("p", { class: "card-facts" });
    this._line = s("svg", { class: "spark", "aria-hidden": "true" });
    this.element = h(
      "li",
      { class: "card" },
      this._examples,
      h(
        "div",
        { class: "card-words" },
        h("h2", {}, this._name),
        h("p", { class: "card-kind" }, this._badge, this._number),
        this._facts,
        this._line,
      ),
    );
  }

  show(card, sequence) {
    this.element.dataset.category = String(card.id);
    this.element.dataset.known = String(card.known);
    this._once("name", [card.id, card.label], () => {
      this._name.setAttribute("href", this._context.href(`/categories/${card.id}`));
      this._name.title = card.label ?? "";
      say(this._name, titled(card.id, card.label));
      say(this._number, visible(card.label) === null ? "" : `no. ${card.id}`);
    });
    this._once("known", card.known, () => fit(this._badge, badge(card.known)));
    this._once(
      "examples",
      card.exemplars.map((one) => one.thumbnail ?? one.id),
      () => {
        const shown = examples(card.exemplars);
        this._examples.dataset.pictures = String(shown.filter((one) => one.tagName === "IMG").length);
        fit(this._examples, shown);
      },
    );
    this._once("activity", card.activity, () => spark(this._line, card.activity));
    const spread = card.spread === null ? "" : ` · spread ${figures(card.spread)}`;
    this._once("facts", [card.count, card.last_sequence, sequence, spread], () => {
      fit(
        this._facts,
        h(
          "strong",
          { title: `${whole(card.count)}, of which ${whole(card.seen)} from the stream` },
          about(card.count, "event"),
        ),
        `${spread}`,
        h("br"),
        lastSeen(card, sequence),
      );
    });
  }

  _once(part, value, then) {
    const sign = JSON.stringify(value);
    if (this._signs[part] === sign) return;
    this._signs[part] = sign;
    then();
  }
}
