// What was sent and what became of it, for eyes and for screen readers.

import { byId, h, say } from "./dom.js";
import { capital } from "./format.js";

const DONE_SECONDS = 10;
const WORDS = {
  sending: "sending …",
  sent: "sent, waiting for the answer",
  done: "done",
  refused: "refused",
  unanswered: "no answer yet",
};

/** Say something to those who do not see. */
export function announce(text) {
  const announcer = byId("announcer");
  announcer.textContent = "";
  // A text that is set anew is read anew.
  setTimeout(() => say(announcer, text), 50);
}

/** A notice of something sent; `show` tells how it stands. */
export function notice(words, id) {
  const state = h("span", { class: "notice-state" });
  const message = h("p", { class: "notice-message" });
  const away = h(
    "button",
    { type: "button", class: "plain", "aria-label": `Dismiss: ${words}`, click: () => element.remove() },
    "×",
  );
  const element = h(
    "div",
    { class: "notice", "data-action-id": id },
    h("div", {}, h("p", { class: "notice-words" }, h("span", {}, `${words}:`), " ", state), message),
    away,
  );
  byId("notices").append(element);
  return {
    show(now, text = "") {
      element.dataset.state = now;
      say(state, WORDS[now]);
      say(message, capital(text));
      announce(`${words}: ${WORDS[now]}. ${text}`);
      if (now === "done") setTimeout(() => element.remove(), DONE_SECONDS * 1000);
    },
  };
}
