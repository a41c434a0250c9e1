// A chart over the stream: layers over its parts, marks, and a crosshair for mouse, finger and keyboard.

import { fit, h, s } from "./dom.js";
import { alike } from "./format.js";
import { linear } from "./scale.js";

const TEXT_WIDTH = 0.62;

/** Draws into `host`. `read(part)` gives the text of the crosshair: a heading and lines. */
export class Chart {
  constructor(host, { label, name }) {
    this._host = host;
    this._svg = s("svg", { "aria-hidden": "true" });
    this._tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this._area = h(
      "div",
      {
        class: "chart",
        role: "slider",
        tabindex: "0",
        "aria-label": `${label}; arrow keys read it part by part`,
        "data-chart": name,
      },
      this._svg,
      this._tip,
    );
    host.append(this._area);
    this._drawn = null;
    this._part = null;
    this._watch = new ResizeObserver(() => this._draw());
    this._watch.observe(this._area);
    this._area.addEventListener("pointermove", (event) => this._point(event));
    this._area.addEventListener("pointerdown", (event) => this._point(event));
    this._area.addEventListener("pointerleave", () => this._leave());
    this._area.addEventListener("focus", () => this._step(0));
    this._area.addEventListener("blur", () => this._hide());
    this._area.addEventListener("keydown", (event) => this._key(event));
    this._area.hidden = true;
  }

  /** Show other data: `edges` of the parts, `scale(bottom, top, wanted)`, `layers(x, y)`, `read(part)`. */
  show(data) {
    this._data = data;
    this._area.hidden = false;
    this._draw();
  }

  hide() {
    this._data = null;
    this._area.hidden = true;
  }

  close() {
    this._watch.disconnect();
  }

  _draw() {
    if (!this._data) return;
    const { clientWidth: width, clientHeight: height } = this._area;
    if (!width || !height) return;
    const { edges, scale, layers } = this._data;
    const em = parseFloat(getComputedStyle(this._area).fontSize);
    const [top, bottom] = [em * 0.9, height - em * 1.7];
    const y = scale(bottom, top, Math.max(2, Math.floor((bottom - top) / (em * 3))));
    const tick = this._data.tick ?? alike(y.ticks);
    const left = em * (TEXT_WIDTH * Math.max(2, ...y.ticks.map((one) => tick(one).length)) + 0.8);
    const right = width - em * 1.2;
    const x = linear(edges[0], edges.at(-1), left, right, Math.max(2, Math.floor((right - left) / (em * 8))), true);
    const number = alike(x.ticks);
    this._svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    fit(
      this._svg,
      y.ticks.map((one) => [
        s("line", { class: "grid", x1: left, x2: right, y1: y.at(one), y2: y.at(one) }),
        s("text", { class: "axis end", x: left - em * 0.5, y: y.at(one) + em * 0.35 }, tick(one)),
      ]),
      x.ticks.map((one) =>
        s(
          "text",
          { class: "axis middle", x: Math.min(x.at(one), right - em * 0.6), y: height - em * 0.3 },
          number(one),
        ),
      ),
      layers(x, y, { left, right, top, bottom, em }),
    );
    this._drawn = { x, top, bottom, width, em };
    this._cross = s("line", { class: "cross", y1: top, y2: bottom, visibility: "hidden" });
    this._svg.append(this._cross);
    this._range();
    if (this._part !== null) this._read(this._part);
  }

  _range() {
    const last = this._data.edges.length - 2;
    this._area.setAttribute("aria-valuemin", "0");
    this._area.setAttribute("aria-valuemax", String(last));
    if (this._part === null) {
      this._area.setAttribute("aria-valuenow", String(last));
      this._area.setAttribute("aria-valuetext", this._data.read(last).flat().join(", "));
    }
  }

  _point(event) {
    if (!this._drawn) return;
    const { edges } = this._data;
    const value = this._drawn.x.back(event.clientX - this._area.getBoundingClientRect().left);
    const next = edges.findIndex((edge) => edge > value);
    this._read(next < 0 ? edges.length - 2 : Math.max(0, next - 1));
  }

  _key(event) {
    const steps = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageUp: 10,
      PageDown: -10,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key === "Escape") this._hide();
    if (!(event.key in steps)) return;
    event.preventDefault();
    this._step(steps[event.key]);
  }

  _step(by) {
    if (!this._drawn) return;
    const last = this._data.edges.length - 2;
    this._read(Math.min(last, Math.max(0, (this._part ?? last) + by)));
  }

  _read(part) {
    const { edges, read } = this._data;
    if (part > edges.length - 2) return this._hide();
    this._part = part;
    const { x, width, em } = this._drawn;
    const place = (x.at(edges[part]) + x.at(edges[part + 1])) / 2;
    this._cross.setAttribute("x1", place);
    this._cross.setAttribute("x2", place);
    this._cross.setAttribute("visibility", "visible");
    const [heading, ...lines] = read(part).flat();
    fit(
      this._tip,
      h("strong", {}, heading),
      lines.map((line) => h("span", {}, line)),
    );
    this._tip.hidden = false;
    const half = this._tip.offsetWidth / 2;
    const beside = place + em + 2 * half < width ? place + em : place - em - 2 * half;
    this._tip.style.transform = `translate(${Math.max(0, beside)}px, 0)`;
    this._area.setAttribute("aria-valuenow", String(part));
    this._area.setAttribute("aria-valuetext", [heading, ...lines].join(", "));
  }

  _leave() {
    if (document.activeElement !== this._area) this._hide();
  }

  _hide() {
    this._part = null;
    this._tip.hidden = true;
    this._cross?.setAttribute("visibility", "hidden");
  }
}

/** A path through points. */
export const path = (points) => points.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** A small line without axes; it says nothing to those who do not see, the figure beside it does. */
export function spark(svg, values) {
  const [width, height] = [100, 24];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  if (values.length < 2) return fit(svg);
  const most = Math.max(...values) || 1;
  const line = path(
    values.map((value, n) => [(n / (values.length - 1)) * width, height - 1.5 - (value / most) * (height - 3)]),
  );
  return fit(
    svg,
    s("path", { class: "spark-area", d: `${line}L${width} ${height}L0 ${height}Z` }),
    s("path", { class: "spark-line", d: line }),
  );
}
