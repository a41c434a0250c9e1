// The name of a category, and giving it another.

import { rename } from "./actions.js";
import { h, say } from "./dom.js";
import { titled, visible } from "./format.js";

/** A heading that turns into a form. */
export class Naming {
  constructor(context) {
    this._context = context;
    this._title = h("h1", { tabindex: "-1", id: "category-name" });
    this._number = h("span", { class: "number" });
    this._input = h("input", { id: "label", name: "label", required: true, maxlength: "512", autocomplete: "off" });
    this._save = h("button", { type: "submit", class: "main" }, "Rename");
    this._form = h(
      "form",
      {
        class: "renaming",
        id: "rename-form",
        hidden: true,
        submit: (event) => this._submit(event),
        keydown: (event) => event.key === "Escape" && this._close(),
      },
      h("label", { for: "label" }, "Name"),
      this._input,
      this._save,
      h("button", { type: "button", click: () => this._close() }, "Cancel"),
    );
    this.button = h(
      "button",
      {
        type: "button",
        id: "rename",
        "aria-expanded": "false",
        "aria-controls": "rename-form",
        click: () => (this._form.hidden ? this._open() : this._close()),
      },
      "Rename …",
    );
    this.element = h("div", { class: "naming" }, this._title, this._number, this._form);
  }

  wait(id) {
    say(this._title, titled(id, null));
  }

  show(card) {
    this._card = card;
    say(this._title, titled(card.id, card.label));
    this._title.title = card.label ?? "";
    say(this._number, visible(card.label) === null ? "" : `category ${card.id}`);
  }

  enable(can) {
    this.button.disabled = this._save.disabled = !can;
  }

  focus() {
    this._title.focus({ preventScroll: true });
  }

  _open() {
    this._form.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this._input.value = this._card.label ?? "";
    this._input.select();
    this._input.focus();
  }

  _close() {
    this._form.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    this.button.focus();
  }

  _submit(event) {
    event.preventDefault();
    const label = this._input.value.trim();
    if (!label || this._save.disabled) return;
    this._close();
    if (label !== this._card.label) rename(this._context.universe, this._card.id, label);
  }
}
