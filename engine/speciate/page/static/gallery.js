// The gallery: a card a category.

import { Card } from "./card.js";
import { get, naming } from "./api.js";
import { Blank } from "./blank.js";
import { debounce, h, say } from "./dom.js";
import { Grid } from "./grid.js";
import { many, whole } from "./format.js";
import { concerns, live } from "./live.js";

const KINDS = [
  ["all", "All"],
  ["known", "Known"],
  ["born", "Discovered"],
];
const SORTS = [
  ["count", "most events"],
  ["recent", "seen last"],
  ["born", "newest"],
  ["label", "name"],
  ["id", "number"],
];
const UPWARDS = new Set(["label", "id"]);
const TYPING_MILLISECONDS = 250;

/** The controls, which are kept in the address. */
class Controls {
  constructor(context, changed) {
    const given = context.parameters;
    const one = (name, all) => (all.some(([value]) => value === given.get(name)) ? given.get(name) : all[0][0]);
    this.kind = one("kind", KINDS);
    this.sort = one("sort", SORTS);
    this.search = given.get("search") ?? "";
    this._context = context;
    this._changed = changed;
    context.filters = this._unusual;
    this.element = h(
      "form",
      { class: "controls", role: "search", submit: (event) => event.preventDefault() },
      this._searching(),
      this._kinds(),
      this._sorts(),
    );
  }

  get parameters() {
    return {
      search: this.search || null,
      kind: this.kind,
      sort: this.sort,
      order: UPWARDS.has(this.sort) ? "asc" : "desc",
    };
  }

  /** What is not as it is at first: this is in the address. */
  get _unusual() {
    const unlike = (now, usual) => (now === usual ? "" : now);
    return { search: this.search, kind: unlike(this.kind, "all"), sort: unlike(this.sort, "count") };
  }

  _set(name, value) {
    if (!this.element.isConnected) return; // typed just before the view was left
    this[name] = value;
    this._context.filters = this._unusual;
    this._context.settle("/categories", this._unusual);
    this._changed();
  }

  _searching() {
    const later = debounce(TYPING_MILLISECONDS, (text) => this._set("search", text.trim()));
    const input = h("input", {
      type: "search",
      id: "search",
      placeholder: "Name or number",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: "200",
      input: (event) => later(event.target.value),
    });
    input.value = this.search;
    return h("label", { class: "pick", for: "search" }, h("span", { class: "quiet" }, "Search"), input);
  }

  _kinds() {
    const radio = ([value, words]) => {
      const input = h("input", { type: "radio", name: "kind", value, change: () => this._set("kind", value) });
      input.checked = value === this.kind;
      return h("label", {}, input, h("span", {}, words));
    };
    return h("fieldset", { class: "segments" }, h("legend", { class: "unseen" }, "Show"), KINDS.map(radio));
  }

  _sorts() {
    const select = h(
      "select",
      { id: "sort", change: (event) => this._set("sort", event.target.value) },
      SORTS.map(([value, words]) => h("option", { value }, words)),
    );
    select.value = this.sort;
    return h("label", { class: "pick", for: "sort" }, h("span", { class: "quiet" }, "Order"), select);
  }
}

/** Open the view; what it gives back closes it. */
export function openCategories(main, context) {
  const count = h("p", { class: "quiet", role: "status" });
  const empty = h("p", { class: "empty", hidden: true });
  const blank = new Blank();
  const controls = new Controls(context, () => grid.restart());
  const grid = new Grid({
    from: context.scrolled,
    load: (offset, limit, signal) =>
      get("/api/categories", { ...naming(context.universe), ...controls.parameters, offset, limit }, signal),
    make: () => {
      const card = new Card(context);
      return { element: card.element, show: (one) => card.show(one, context.universe.sequence) };
    },
    told: (page) => {
      blank.fill();
      say(
        count,
        page.matching === page.total
          ? many(page.total, "category", "categories")
          : `${whole(page.matching)} of ${many(page.total, "category", "categories")}`,
      );
      empty.hidden = page.matching > 0;
      say(
        empty,
        page.total ? "No category is like that." : "There are no categories yet. They appear here as they are born.",
      );
    },
  });
  main.append(
    h("div", { class: "view-head" }, h("h1", { tabindex: "-1" }, "Categories"), count, controls.element),
    grid.element,
    empty,
    blank.element,
  );
  grid.refresh();
  const end = live.on("news", (news) => {
    if (news.some((one) => one.kind === "control" && concerns(context.universe, one))) grid.refresh();
  });
  return {
    close() {
      end();
      blank.close();
      grid.close();
    },
  };
}
