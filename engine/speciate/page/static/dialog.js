// Questions that are answered before anything else goes on.

import { byId, h } from "./dom.js";

let count = 0;

/** Ask; the answer is what `answer` gives when it is agreed to, else null. */
export function ask({ title, body, action, danger = false, answer = () => true }) {
  count += 1;
  const heading = `dialog-title-${count}`;
  return new Promise((resolve) => {
    let given = null;
    const form = h(
      "form",
      {
        method: "dialog",
        submit: (event) => {
          given = answer();
          if (given === null) event.preventDefault();
        },
      },
      h("h2", { id: heading }, title),
      h("div", { class: "dialog-body" }, body),
      h(
        "div",
        { class: "dialog-buttons" },
        h("button", { type: "button", "data-dialog": "cancel", click: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: danger ? "danger" : "main", "data-dialog": "confirm" }, action),
      ),
    );
    const dialog = h("dialog", { "aria-labelledby": heading }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      // What it was opened from may be gone by now.
      if (document.activeElement === document.body) byId("view").querySelector("h1:not([hidden] *)")?.focus();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
