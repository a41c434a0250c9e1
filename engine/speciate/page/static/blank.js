// What stands where nothing has come yet.

import { h } from "./dom.js";
import { live } from "./live.js";

/** Says why a place is empty, if that is for want of a connection. */
export class Blank {
  constructor() {
    this.element = h("p", { class: "empty" }, "Without a connection there is nothing to show here.");
    this._filled = false;
    this._end = live.on("link", () => this._show());
    this._show();
  }

  /** Something has come, and stays whatever becomes of the connection. */
  fill() {
    this._filled = true;
    this._show();
  }

  close() {
    this._end();
  }

  _show() {
    this.element.hidden = this._filled || live.link !== "lost";
  }
}
