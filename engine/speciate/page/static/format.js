// Figures and names in words.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const NONE = "–";
const VISIBLE = /[^\p{Z}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]/u;
const ISOLATES = /[\u2066-\u2069]/g;

/** 12,345 */
export const whole = (value) => WHOLE.format(value);

/** Units, and from where on: from what is rounded to one of them, and of thousands to ten. */
const UNITS = [
  ["\u00a0G", 1e9, 999.5e6],
  ["\u00a0M", 1e6, 999.5e3],
  ["\u00a0k", 1e3, 9999.5],
  ["", 1, 0],
];

function unitOf(value) {
  return UNITS.find(([, , from]) => Math.abs(value) >= from);
}

/** Three figures at most, but for whole numbers below ten thousand: 1,234, 12.3 k, 4.56 M. */
export function short(value) {
  const [unit, size] = unitOf(value);
  return size === 1 && Number.isInteger(value) ? whole(value) : `${figures(value / size)}${unit}`;
}

/** Values beside an axis: all in the unit of the largest. */
export function alike(values) {
  const [unit, size] = unitOf(Math.max(...values.map(Math.abs)));
  return (value) => (value === 0 ? "0" : `${figures(value / size)}${unit}`);
}

/** Three significant figures, without a string of zeros. */
export function figures(value) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Math.abs(value) >= 100) return whole(value).replace("-", "−");
  if (Math.abs(value) < 0.001) return value.toExponential(1).replace("-", "−");
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

/** A figure and its unit, apart: the unit is set smaller. */
export function span(seconds) {
  if (seconds === null) return [NONE, ""];
  if (seconds < 0.001) return [figures(seconds * 1e6), "µs"];
  if (seconds < 1) return [figures(seconds * 1e3), "ms"];
  return [figures(seconds), "s"];
}

/** How long something took, roughly. */
export function lasting(seconds) {
  const parts = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .map(([size, unit], n) => [Math.floor(n ? (seconds % parts[first][0]) / size : seconds / size), unit])
    .filter(([count], n) => count || !n)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** A share as whole per cent. */
export const percent = (share) => `${Math.round(share * 100)}\u202f%`;

/** A time of day, with the date if it is not today's. */
export function clock(seconds) {
  const time = new Date(seconds * 1000);
  const hour = time.toLocaleTimeString("en-GB");
  if (time.toDateString() === new Date().toDateString()) return hour;
  return `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })}, ${hour}`;
}

/** A label as it is shown; null if there is none, or nothing of it could be seen. */
export function visible(label) {
  if (label === null || !VISIBLE.test(label)) return null;
  // One of these alone would end the isolation it is put into.
  return label.replace(ISOLATES, "");
}

/** Somebody's text in the midst of ours: whatever its direction, the words around it stay where they are. */
export const apart = (text) => `\u2068${text.replace(ISOLATES, "")}\u2069`;

/** What a category is called, in the midst of a line. */
export const called = (id, label) => (visible(label) === null ? `category ${id}` : apart(label));

/** The same as the whole of a line; a label is left as it was given. */
export const titled = (id, label) => visible(label) ?? `Category ${id}`;

/** The same in the midst of a sentence: a name and the number it belongs to. */
export const named = (id, label) => (visible(label) === null ? `category ${id}` : `“${apart(label)}” (${id})`);

/** "1 event", "2 events" */
export const many = (count, one, more = `${one}s`) => `${whole(count)} ${count === 1 ? one : more}`;

/** The same roughly: "12.3 k events" */
export const about = (count, one, more = `${one}s`) => `${short(count)} ${count === 1 ? one : more}`;

/** When a category was last given an event, in words. */
export function lastSeen(card, sequence) {
  if (card.last_sequence === null) return "not seen yet";
  const ago = Math.max(0, sequence - 1 - card.last_sequence);
  return ago === 0 ? "seen just now" : `seen ${about(ago, "record")} ago`;
}

/** A power of ten: "10²⁴", or the number itself where that is shorter. */
function odds(nats) {
  const power = Math.abs(nats) / Math.LN10;
  if (power < 4) return figures(Math.exp(Math.abs(nats)));
  return `10${[...String(Math.round(power))].map((digit) => SUPERSCRIPTS[Number(digit)]).join("")}`;
}

/** What a log Bayes factor says, in words; the steps are those of Kass and Raftery. */
export function verdict(nats) {
  const size = Math.abs(nats);
  if (size < 1) return "hardly any evidence either way";
  return `${size < 3 ? "some" : size < 5 ? "strong" : "very strong"} evidence${nats > 0 ? "" : " against"}`;
}

/** The same as odds. */
export function likelier(nats) {
  return nats > 0
    ? `${odds(nats)} times likelier as one than as two`
    : `${odds(nats)} times likelier as two than as one`;
}

/** Nats with a sign. */
export const nats = (value) => `${value > 0 ? "+" : ""}${figures(value)}\u00a0nats`;

/** What a control event does, done or to be done. */
export function deed(control, done = true) {
  switch (control.type) {
    case "rename.v1":
      return `${done ? "renamed" : "rename"} ${control.category} to “${apart(control.label)}”`;
    case "merge.v1":
      return `${done ? "merged" : "merge"} ${control.absorb} into ${control.keep}`;
    case "forget.v1":
      return `${done ? "forgot" : "forget"} ${control.category}`;
    case "undo.v1":
      return done ? "undid the last change" : "undo the last change";
    default:
      return control.type;
  }
}

/** A text with a capital letter in front. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
