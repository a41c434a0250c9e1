// Choosing the category to merge another into.

import { UNDOABLE, send } from "./actions.js";
import { Refused, get, naming } from "./api.js";
import { ask } from "./dialog.js";
import { debounce, fit, h, say } from "./dom.js";
import { many, named, nats, titled, visible } from "./format.js";

const MOST = 12;
const TYPING_MILLISECONDS = 250;

/** Those that come to mind: what the events speak for first, then what is near. */
function likely({ card, suggestions, nearest }) {
  const found = new Map();
  for (const one of suggestions) {
    const keeps = one.keep !== card.id;
    const [id, label, count] = keeps
      ? [one.keep, one.keep_label, one.keep_count]
      : [one.absorb, one.absorb_label, one.absorb_count];
    found.set(id, { id, label, count, note: nats(one.log_bayes_factor) });
  }
  for (const one of nearest) {
    if (!found.has(one.category))
      found.set(one.category, { id: one.category, label: one.label, count: one.count, note: "near" });
  }
  return [...found.values()].slice(0, MOST);
}

function radio(one) {
  const number = visible(one.label) === null ? null : `no. ${one.id}`;
  return h(
    "label",
    {},
    h("input", { type: "radio", name: "keep", value: one.id }),
    h("span", {}, titled(one.id, one.label)),
    h("span", { class: "quiet small" }, [number, many(one.count, "event"), one.note].filter(Boolean).join(" · ")),
  );
}

/** The categories to choose from: the likely ones, or those that are searched for. */
class Choices {
  constructor(context, view) {
    this._context = context;
    this._view = view;
    this._latest = 0;
    this._list = h("div", { class: "choices", role: "radiogroup", "aria-labelledby": "merge-choices" });
    this._wrong = h("p", { class: "wrong", role: "alert" });
    const search = debounce(TYPING_MILLISECONDS, (text) => this._search(text));
    const input = h("input", {
      type: "search",
      id: "merge-search",
      autocomplete: "off",
      placeholder: "Name or number",
      maxlength: "200",
      input: (event) => search(event.target.value.trim()),
    });
    this.parts = [
      h("label", { class: "pick wide", for: "merge-search" }, h("span", {}, "Search all categories"), input),
      h("p", { id: "merge-choices", class: "unseen" }, "Merge into"),
      this._list,
      this._wrong,
    ];
    this._suggest();
  }

  /** The number of the chosen one; null, and a word about it, if there is none. */
  answer() {
    const chosen = this._list.querySelector("input:checked");
    if (!chosen) say(this._wrong, "Choose a category first.");
    return chosen ? Number(chosen.value) : null;
  }

  _suggest() {
    this._offer(likely(this._view), "None is near: search for the one you mean.");
  }

  _offer(all, otherwise) {
    say(this._wrong, "");
    fit(this._list, all.length ? all.map(radio) : h("p", { class: "empty" }, otherwise));
  }

  async _search(text) {
    this._latest += 1;
    const mine = this._latest;
    if (!text) return this._suggest();
    try {
      const page = await get("/api/categories", { ...naming(this._context.universe), search: text, limit: MOST });
      const others = page.categories.filter((one) => one.id !== this._view.card.id);
      if (mine === this._latest) this._offer(others, "No other category is called that.");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (mine === this._latest) say(this._wrong, error.message);
    }
    return undefined;
  }
}

/** Ask for it, and merge. */
export async function mergeInto(context, view) {
  const { card } = view;
  const choices = new Choices(context, view);
  const keep = await ask({
    title: `Merge ${named(card.id, card.label)} into …`,
    body: [
      h("p", {}, `Its ${many(card.count, "event")} become those of the category you choose.`),
      h("p", {}, `The number ${card.id} is never used again. ${UNDOABLE}`),
      choices.parts,
    ],
    action: "Merge",
    answer: () => choices.answer(),
  });
  if (keep !== null) send(context.universe, { type: "merge.v1", keep, absorb: card.id });
}
