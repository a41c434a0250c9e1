// Choosing the category to merge another into.

import { UNDOABLE, send } from "./actions.js";
import { Refused, get, naming } from "./api.js";
import { ask } from "./dialog.js";
import { debounce, fit, h, say } from "./dom.js";
import { many, named, nats, titled } from "./format.js";

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

/** Ask for it, and merge. */
export async function mergeInto(context, view) {
  const { card } = view;
  const list = h("div", { class: "choices", role: "radiogroup", "aria-labelledby": "merge-choices" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const radio = (one) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name: "keep", value: one.id }),
      h("span", {}, titled(one.id, one.label)),
      h(
        "span",
        { class: "quiet small" },
        [one.label === null ? null : `no. ${one.id}`, many(one.count, "event"), one.note].filter(Boolean).join(" · "),
      ),
    );
  const offer = (all) =>
    fit(list, all.length ? all.map(radio) : h("p", { class: "empty" }, "No category is called that."));
  let latest = 0;
  const search = debounce(TYPING_MILLISECONDS, async (text) => {
    latest += 1;
    const mine = latest;
    if (!text) return offer(likely(view));
    try {
      const page = await get("/api/categories", { ...naming(context.universe), search: text, limit: MOST });
      if (mine === latest) offer(page.categories.filter((one) => one.id !== card.id));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      say(wrong, error.message);
    }
    return undefined;
  });
  offer(likely(view));
  const keep = await ask({
    title: `Merge ${named(card.id, card.label)} into …`,
    body: [
      h("p", {}, `Its ${many(card.count, "event")} become those of the category you choose.`),
      h("p", {}, `The number ${card.id} is never used again. ${UNDOABLE}`),
      h(
        "label",
        { class: "pick wide", for: "merge-search" },
        h("span", {}, "Search all categories"),
        h("input", {
          type: "search",
          id: "merge-search",
          autocomplete: "off",
          placeholder: "Name or number",
          maxlength: "200",
          input: (event) => search(event.target.value.trim()),
        }),
      ),
      h("p", { id: "merge-choices", class: "unseen" }, "Merge into"),
      list,
      wrong,
    ],
    action: "Merge",
    answer: () => {
      const chosen = list.querySelector("input:checked");
      if (!chosen) say(wrong, "Choose a category first.");
      return chosen ? Number(chosen.value) : null;
    },
  });
  if (keep !== null) send(context.universe, { type: "merge.v1", keep, absorb: card.id });
}
