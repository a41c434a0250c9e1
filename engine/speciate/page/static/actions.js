// Changing categories by hand. What is sent is done only when the pipeline says so.

import { Refused, post } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { capital, deed, likelier, many, named } from "./format.js";
import { live } from "./live.js";
import { notice } from "./notices.js";

/** What is true of every change by hand. */
export const UNDOABLE = "As long as nothing else is changed by hand, it can be undone.";

const PATIENCE_SECONDS = 60;

const waiting = new Map();
const LOOK = "Look before you send it again.";
const says = (text) => h("p", {}, text);
const counted = ({ id, label, count }) => `${named(id, label)} with ${many(count, "event")}`;

live.awaited = () => [...waiting.values()].some((one) => one.until > Date.now());
live.on("news", (news) => {
  for (const one of news) {
    if (one.kind === "birth" || !waiting.has(one.id)) continue;
    const { shown, timer } = waiting.get(one.id);
    clearTimeout(timer);
    waiting.delete(one.id);
    if (one.kind === "control") shown.show("done");
    else shown.show("refused", one.message);
  }
});

function identifier() {
  // Not randomUUID: it is there on secure origins only.
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Send a control event; the answer comes with the news. */
export async function send(universe, what) {
  const id = identifier();
  const control = { ...what, id, stream: universe.stream ?? "" };
  const shown = notice(capital(deed(control, false)), id);
  // Before it is sent: the answer may be here before the server's word that it was taken.
  waiting.set(id, patience(shown));
  shown.show("sending");
  try {
    await post("/api/control", { control, task: universe.task });
    if (waiting.has(id)) shown.show("sent");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (!waiting.has(id)) return;
    if (!error.status) return shown.show("unanswered", `It may have been sent all the same. ${LOOK}`);
    clearTimeout(waiting.get(id).timer);
    waiting.delete(id);
    shown.show("refused", error.message);
  }
  return undefined;
}

/** What is waited for; an answer that comes later is told all the same. */
function patience(shown) {
  const milliseconds = PATIENCE_SECONDS * 1000;
  const timer = setTimeout(() => shown.show("unanswered", LOOK), milliseconds);
  return { shown, timer, until: Date.now() + milliseconds };
}

/** Why nothing can be changed; empty if it can. */
export function barred() {
  if (!live.state) return "not connected yet";
  return live.state.uncontrollable;
}

/** Why nothing can be sent just now; empty if it can. */
export const halted = () => barred() || (live.link === "lost" ? "there is no connection" : "");

/** Whether there is a change to take back, as far as is known here. */
export function undoable(universe) {
  if (!universe || !live.state?.controls) return false;
  return lastChange(universe)?.control.type !== "undo.v1";
}

const lastChange = (universe) => live.about(universe).find((one) => one.kind === "control");

export function rename(universe, category, label) {
  return send(universe, { type: "rename.v1", category, label });
}

/** Ask, and merge one category into another. */
export async function merge(universe, keep, absorb, gain) {
  const sure = await ask({
    title: "Merge two categories?",
    body: [
      says(`${capital(counted(absorb))} is folded into ${counted(keep)}.`),
      says(`From then on there is only ${keep.id}; the number ${absorb.id} is never used again. ${UNDOABLE}`),
      says(`The events speak ${gain > 0 ? "for" : "against"} it: they are ${likelier(gain)}.`),
    ],
    action: `Merge ${absorb.id} into ${keep.id}`,
  });
  if (sure) send(universe, { type: "merge.v1", keep: keep.id, absorb: absorb.id });
}

/** Ask, and forget a category. */
export async function forget(universe, card) {
  const sure = await ask({
    title: `Forget ${named(card.id, card.label)}?`,
    body: [
      says(`What it has learnt from ${many(card.count, "event")} is dropped, and its number is never used again.`),
      says("Events like these will be given to other categories, or give birth to a new one."),
      says("Answers given before stay as they are; those who read them are told that the category is gone."),
      says(UNDOABLE),
    ],
    action: `Forget ${card.id}`,
    danger: true,
  });
  if (sure) send(universe, { type: "forget.v1", category: card.id });
}

/** Ask, and take back the last change. */
export async function undo(universe) {
  const last = lastChange(universe);
  const sure = await ask({
    title: "Undo the last change?",
    body: [
      says("The last rename, merge or forget is taken back, whoever made it: only the last, and only once."),
      last && says(`The last one seen here: ${deed(last.control)}.`),
    ],
    action: "Undo it",
  });
  if (sure) send(universe, { type: "undo.v1" });
}
