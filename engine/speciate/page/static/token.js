// The form for the token, where one is needed.

import { Refused, post } from "./api.js";
import { h, say } from "./dom.js";

/** Ask for the token and begin a session. */
export function openToken(main, then) {
  const wrong = h("p", { class: "wrong", id: "token-wrong", role: "alert" });
  const input = h("input", {
    id: "token",
    name: "token",
    type: "password",
    required: true,
    autocomplete: "current-password",
    "aria-describedby": "token-wrong",
  });
  const form = h(
    "form",
    {
      class: "token panel",
      submit: async (event) => {
        event.preventDefault();
        say(wrong, "");
        try {
          await post("/session", { token: input.value });
          then();
        } catch (error) {
          if (!(error instanceof Refused)) throw error;
          say(wrong, error.status === 401 ? "That is not the token." : `That did not work: ${error.message}`);
          input.select();
        }
      },
    },
    h("h1", { tabindex: "-1" }, "Token"),
    h("p", { class: "quiet" }, "This page is for those who have its token: SPECIATE_PAGE_TOKEN where it was started."),
    h("label", { for: "token" }, "Token"),
    input,
    wrong,
    h("button", { type: "submit", class: "main" }, "Open"),
  );
  main.append(form);
  input.focus();
  return { close() {} };
}
