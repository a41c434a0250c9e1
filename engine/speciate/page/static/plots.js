// What the charts over the stream show.

import { path } from "./chart.js";
import { s } from "./dom.js";
import { clock, figures, many, whole } from "./format.js";
import { linear, suitable } from "./scale.js";

const MOST_DOTS = 80;

function edges(timeline) {
  const all = timeline.events.map((_, n) => n * timeline.width);
  return [...all, Math.max(timeline.sequence, (all.at(-1) ?? 0) + 1)];
}

function stretch(timeline, part) {
  const all = edges(timeline);
  const at = timeline.times[part];
  return [`records ${whole(all[part])} to ${whole(all[part + 1] - 1)}`, at === null ? [] : [clock(at)]];
}

/** Categories over the stream, and where they were born. */
export function growth(timeline, known) {
  const all = edges(timeline);
  const counts = timeline.categories;
  const most = Math.max(...counts, 1);
  const layers = (x, y, { left, right, bottom, em }) => {
    const points = counts.flatMap((count, n) => [
      [x.at(all[n]), y.at(n ? counts[n - 1] : Math.min(count, known || count))],
      [x.at(all[n + 1]), y.at(count)],
    ]);
    const line = path(points);
    const floor = y.at(Math.min(known, counts[0]));
    const dots = timeline.marks.slice(-MOST_DOTS).map((mark) => {
      const part = Math.min(counts.length - 1, Math.floor(mark.sequence / timeline.width));
      const before = part ? counts[part - 1] : Math.min(counts[0], known || counts[0]);
      const share = (mark.sequence - all[part]) / Math.max(1, all[part + 1] - all[part]);
      return s("circle", {
        class: "birth",
        cx: x.at(mark.sequence),
        cy: y.at(before + (counts[part] - before) * share),
        r: em * 0.3,
      });
    });
    return [
      s("path", { class: "area", d: `${line}L${right} ${floor}L${left} ${floor}Z` }),
      s("rect", { class: "known-area", x: left, width: right - left, y: floor, height: Math.max(0, bottom - floor) }),
      timeline.marks.map((mark) =>
        s("line", {
          class: "rug",
          x1: x.at(mark.sequence),
          x2: x.at(mark.sequence),
          y1: bottom,
          y2: bottom - em * 0.6,
        }),
      ),
      known > 0 &&
        s(
          "text",
          {
            class: "axis end over",
            x: right - em * 0.4,
            y: bottom - floor > em * 2 ? floor + em * 1.2 : floor - em * 0.4,
          },
          `${whole(known)} known`,
        ),
      s("path", { class: "line", d: line }),
      dots,
    ];
  };
  const read = (part) => {
    const born = timeline.births[part];
    return [
      ...stretch(timeline, part),
      `${many(counts[part], "category", "categories")}`,
      born ? [many(born, "birth")] : [],
    ].flat();
  };
  return {
    edges: all,
    layers,
    read,
    scale: (bottom, top, wanted) => linear(0, most * 1.08, bottom, top, Math.min(wanted, most), true),
  };
}

/** Events of one category over the stream. */
export function activity({ card, width }, sequence) {
  const { activity: counts } = card;
  const all = [...counts.map((_, n) => n * width), Math.max(sequence, (counts.length - 1) * width + 1)];
  const layers = (x, y, { bottom }) =>
    counts.map(
      (count, n) =>
        count > 0 &&
        s("rect", {
          class: "column",
          x: x.at(all[n]),
          y: y.at(count),
          width: Math.max(1, x.at(all[n + 1]) - x.at(all[n]) - 1),
          height: bottom - y.at(count),
        }),
    );
  const most = Math.max(1, ...counts);
  return {
    edges: all,
    layers,
    read: (part) => [`records ${whole(all[part])} to ${whole(all[part + 1] - 1)}`, many(counts[part], "event")],
    scale: (bottom, top, wanted) => linear(0, most * 1.1, bottom, top, Math.min(wanted, most), true),
  };
}

/** How sure the answers were; null if none of them can tell. */
export function margins(timeline) {
  const all = edges(timeline);
  const { margin_low: low, margin_middle: middle, margin_high: high } = timeline;
  const there = middle.map((value, n) => value !== null && low[n] !== null && high[n] !== null);
  if (!there.some(Boolean)) return null;
  const layers = (x, y) => {
    const at = (values) =>
      values.map((value, n) => (there[n] ? [(x.at(all[n]) + x.at(all[n + 1])) / 2, y.at(value)] : null));
    const [upper, lower] = [at(high).filter(Boolean), at(low).filter(Boolean)];
    return [
      upper.length > 1 && s("path", { class: "band", d: `${path([...upper, ...lower.reverse()])}Z` }),
      s("path", { class: "line margin", d: path(at(middle).filter(Boolean)) }),
    ];
  };
  const read = (part) => {
    if (!there[part]) return [...stretch(timeline, part), "no margin"].flat();
    return [
      ...stretch(timeline, part),
      `median ${figures(middle[part])} nats`,
      `10 to 90 %: ${figures(low[part])} to ${figures(high[part])} nats`,
    ].flat();
  };
  const values = [...low, ...middle, ...high];
  return {
    edges: all,
    layers,
    read,
    tick: figures,
    scale: (bottom, top, wanted) => suitable(values, bottom, top, wanted),
  };
}
