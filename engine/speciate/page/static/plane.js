// The members of a category on their plane, where the next is expected, and how the centre has moved.

import { fit, h, s, say } from "./dom.js";
import { clock, percent, whole } from "./format.js";

const SIZE = 600;
const FLATTEST = 0.55;
const EDGE = 34;
const DOT = 6;
const PICTURE = 17;
/** Why, by how many events are kept. */
const NO_PLANE = ["None of its events is kept.", "One event is no plane yet."];

function reach({ x, y, major, minor, angle }) {
  const [c, d] = [Math.cos(angle), Math.sin(angle)];
  const [w, v] = [Math.hypot(major * c, minor * d), Math.hypot(major * d, minor * c)];
  return [
    [x - w, y - v],
    [x + w, y + v],
  ];
}

/** One scale for both axes, so that distances are what they look like; y grows upwards. What a category begins with is
 * often far wider than what became of it: it has no say, and what does not fit is cut off. */
function placing(view) {
  const points = [...view.members.map((one) => [one.x, one.y]), ...view.trail.map((one) => [one.x, one.y])];
  if (view.ellipse) points.push(...reach(view.ellipse));
  if (!points.length) points.push([0, 0]);
  const span = (axis) => [Math.min(...points.map((one) => one[axis])), Math.max(...points.map((one) => one[axis]))];
  const [[left, right], [low, high]] = [span(0), span(1)];
  const unit = (SIZE - 2 * EDGE) / (Math.max(right - left, high - low) || 1);
  const [across, up] = [(left + right) / 2, (low + high) / 2];
  const height = Math.max(SIZE * FLATTEST, (high - low) * unit + 2 * EDGE);
  return { at: (x, y) => [SIZE / 2 + (x - across) * unit, height / 2 - (y - up) * unit], unit, height };
}

/** Whether an ellipse is so wide that nothing of its line is to be seen. */
function beyond(one, { at, unit, height }) {
  const [x, y] = at(one.x, one.y);
  const [c, d] = [Math.cos(one.angle), -Math.sin(one.angle)];
  return [0, SIZE].every((across) =>
    [0, height].every((up) => {
      const [w, v] = [across - x, up - y];
      return Math.hypot((w * c + v * d) / (one.major * unit), (v * c - w * d) / (one.minor * unit)) < 1;
    }),
  );
}

function ellipse(one, { at, unit }, kind) {
  if (!one) return null;
  const [x, y] = at(one.x, one.y);
  return s("ellipse", {
    class: kind,
    rx: one.major * unit,
    ry: one.minor * unit,
    transform: `translate(${x} ${y}) rotate(${(-one.angle * 180) / Math.PI})`,
  });
}

function trail(spots, { at }) {
  const points = spots.map((one) => at(one.x, one.y));
  const steps = points.slice(1).map(([x, y], n) => {
    const age = (n + 1) / points.length;
    return s("line", {
      class: "trail",
      x1: points[n][0],
      y1: points[n][1],
      x2: x,
      y2: y,
      "stroke-opacity": 0.25 + 0.75 * age,
      "marker-end": n === points.length - 2 ? "url(#arrow)" : null,
    });
  });
  const arrow = s(
    "marker",
    {
      id: "arrow",
      viewBox: "0 0 10 10",
      refX: "8",
      refY: "5",
      markerWidth: "14",
      markerHeight: "14",
      markerUnits: "userSpaceOnUse",
      orient: "auto-start-reverse",
    },
    s("path", { class: "arrow", d: "M0 0L10 5L0 10z" }),
  );
  return [
    s(
      "defs",
      {},
      arrow,
      s("clipPath", { id: "round", clipPathUnits: "objectBoundingBox" }, s("circle", { cx: 0.5, cy: 0.5, r: 0.5 })),
    ),
    steps,
  ];
}

const words = ({ id, sequence, time }) => `${id}, record ${whole(sequence)}${time === null ? "" : `, ${clock(time)}`}`;

/** The panel: the plane, a picture of the member pointed at, and a table that says the same. */
export class Plane {
  constructor() {
    this._svg = s("svg", {
      class: "plane",
      role: "listbox",
      id: "plane",
      "aria-label": "Members on the plane of their first two principal components; arrow keys go from one to the next",
    });
    this._peek = h("div", { class: "peek", "aria-hidden": "true" });
    this._axes = h("p", { class: "quiet small" });
    this._legend = h(
      "ul",
      { class: "legend" },
      [
        ["ellipse", "where 9 of 10 next events are expected"],
        ["before", "what a new category begins with"],
        ["trail", "how its centre moved"],
      ].map(([kind, text]) => h("li", {}, h("span", { class: `swatch ${kind}` }), text)),
    );
    this._rows = h("tbody", {});
    this._empty = h("p", { class: "empty" });
    this._table = h(
      "details",
      {},
      h("summary", {}, "The members as a table"),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Members" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Event", "Record", "Time", "x", "y"].map((one) => h("th", { scope: "col" }, one)),
            ),
          ),
          this._rows,
        ),
      ),
    );
    this.element = h(
      "section",
      { class: "panel plane-panel", "aria-labelledby": "plane-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "plane-title" }, "Its members"), this._axes),
      h("div", { class: "plane-frame" }, this._svg, this._peek),
      this._empty,
      this._legend,
      this._table,
    );
    this._sign = "";
    this._members = [];
    this._now = 0;
    this._svg.addEventListener("keydown", (event) => this._key(event));
    this._svg.addEventListener("pointerleave", () => this._show(null));
    // Not on the drawing itself, which would become a stop for the tab key.
    this.element.addEventListener("focusout", () => this._show(null));
  }

  show(view) {
    const { members, ellipse: now, ellipse_before: before, trail: way, card } = view;
    const sign = JSON.stringify([members, now, before, way, card.exemplars.length]);
    if (sign === this._sign) return;
    this._sign = sign;
    const held = this._svg.contains(document.activeElement);
    const place = placing(view);
    this._svg.setAttribute("viewBox", `0 0 ${SIZE} ${place.height}`);
    this._members = [...view.members].sort((one, other) => one.x - other.x);
    this._now = Math.min(this._now, Math.max(0, this._members.length - 1));
    this._dots = this._members.map((one, n) => this._dot(one, n, place));
    fit(
      this._svg,
      ellipse(view.ellipse_before, place, "before"),
      ellipse(view.ellipse, place, "expected"),
      this._dots,
      trail(view.trail, place),
    );
    this._say(view, place);
    if (held) this._dots[this._now]?.focus();
  }

  _say(view, place) {
    const there = this._members.length > 0;
    this._empty.hidden = there;
    say(this._empty, NO_PLANE[view.card.exemplars.length] ?? "Events of a single feature have no plane.");
    this._table.hidden = !there;
    this._svg.parentElement.hidden = this._legend.hidden = !there && !view.ellipse;
    const begins = view.ellipse_before && !beyond(view.ellipse_before, place);
    for (const [n, shown] of [view.ellipse, begins, view.trail.length > 1].entries())
      this._legend.children[n].hidden = !shown;
    const [x, y] = view.explained;
    say(this._axes, x === undefined ? "" : `the plane holds ${percent(x + (y ?? 0))} of their variance`);
    fit(
      this._rows,
      this._members.map(({ exemplar, x: across, y: up }) =>
        h(
          "tr",
          {},
          h("td", { class: "identifier" }, exemplar.id),
          h("td", {}, whole(exemplar.sequence)),
          h("td", {}, exemplar.time === null ? "–" : clock(exemplar.time)),
          h("td", {}, across.toFixed(2)),
          h("td", {}, up.toFixed(2)),
        ),
      ),
    );
  }

  _dot(member, n, { at }) {
    const [x, y] = at(member.x, member.y);
    const { thumbnail } = member.exemplar;
    const size = thumbnail ? PICTURE : DOT;
    return s(
      "g",
      {
        class: "member",
        role: "option",
        "aria-selected": String(n === this._now),
        tabindex: n === this._now ? "0" : "-1",
        "aria-label": words(member.exemplar),
        transform: `translate(${x} ${y})`,
        pointerenter: () => this._show(member),
        focus: () => this._reach(n),
      },
      thumbnail &&
        s("image", {
          href: thumbnail,
          x: -size,
          y: -size,
          width: 2 * size,
          height: 2 * size,
          preserveAspectRatio: "xMidYMid slice",
          "clip-path": "url(#round)",
        }),
      s("circle", { class: thumbnail ? "ring" : "dot", r: size }),
    );
  }

  _key(event) {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this._dots.length) return;
    event.preventDefault();
    this._dots[Math.min(this._dots.length - 1, Math.max(0, this._now + steps[event.key]))].focus();
  }

  _reach(n) {
    for (const [at, dot] of this._dots.entries()) {
      dot.setAttribute("tabindex", at === n ? "0" : "-1");
      dot.setAttribute("aria-selected", String(at === n));
    }
    this._now = n;
    this._show(this._members[n]);
  }

  _show(member) {
    if (!member) return fit(this._peek);
    const { thumbnail, id, sequence, time } = member.exemplar;
    // On the other side, so that it does not cover what it is about.
    this._peek.classList.toggle("right", this._members.indexOf(member) < this._members.length / 2);
    return fit(
      this._peek,
      thumbnail && h("img", { src: thumbnail, alt: "" }),
      h("p", { class: "identifier" }, id),
      h(
        "p",
        { class: "quiet small" },
        [`record ${whole(sequence)}`, time === null ? null : clock(time)].filter(Boolean).join(" · "),
      ),
    );
  }
}
