// A grid of any number of cards, of which only those in sight are there.

import { Refused, troubles } from "./api.js";
import { h, holdOn } from "./dom.js";

const PAGE = 60;
const BEYOND_ROWS = 2;
const REMEMBERED = 600;
const REFRESH_SECONDS = 4;

/** `from` is how far down one was before; `load(offset, limit, signal)` gives a CategoryPage; `make()` an object with `element` and `show(card)`. */
export class Grid {
  constructor({ from, load, make, told }) {
    this.element = h("ul", { class: "grid" });
    this._from = from;
    this._load = load;
    this._make = make;
    this._told = told;
    this._cards = new Map();
    this._shown = new Map();
    this._fresh = new Map();
    this._matching = null;
    this._under = null;
    this._timer = 0;
    this._frame = 0;
    this._later = () => {
      this._frame ||= requestAnimationFrame(() => {
        this._frame = 0;
        this._draw();
      });
    };
    this._seen = () => document.visibilityState === "visible" && this.refresh();
    this._watch = new ResizeObserver(this._later);
    this._watch.observe(this.element);
    window.addEventListener("scroll", this._later, { passive: true });
    document.addEventListener("visibilitychange", this._seen);
  }

  /** Everything is to be asked anew; what is shown stays until it is answered. */
  refresh() {
    this._fresh.clear();
    this._fetch();
  }

  /** Other cards altogether. */
  restart() {
    this._under?.abort();
    this._under = null;
    this._cards.clear();
    this._matching = null;
    window.scrollTo(0, 0);
    this.refresh();
  }

  close() {
    this._closed = true;
    clearTimeout(this._timer);
    this._under?.abort();
    troubles.over(this);
    this._watch.disconnect();
    cancelAnimationFrame(this._frame);
    window.removeEventListener("scroll", this._later);
    document.removeEventListener("visibilitychange", this._seen);
  }

  _shape() {
    const style = getComputedStyle(this.element);
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const length = (name) => parseFloat(style.getPropertyValue(name)) * rem;
    const [gap, least, height] = [length("--gap"), length("--card-width"), length("--card-height")];
    const width = this.element.clientWidth;
    const columns = Math.max(1, Math.floor((width + gap) / (least + gap)));
    return { columns, gap, height, width: (width - gap * (columns - 1)) / columns };
  }

  _range(shape) {
    const top = -this.element.getBoundingClientRect().top;
    const row = shape.height + shape.gap;
    const first = Math.max(0, Math.floor(top / row) - BEYOND_ROWS) * shape.columns;
    const last = (Math.ceil((top + window.innerHeight) / row) + BEYOND_ROWS) * shape.columns;
    return [first, Math.min(Math.max(first, last), this._matching ?? PAGE)];
  }

  /** The first page in sight that is missing or old. */
  _wanted() {
    const [first, last] = this._range(this._shape());
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.max(last, 1); page += 1) {
      if (!this._fresh.has(page)) return page;
    }
    return null;
  }

  async _fetch() {
    if (this._under || this._closed || document.visibilityState !== "visible") return;
    clearTimeout(this._timer);
    const page = this._wanted();
    if (page === null) {
      this._timer = setTimeout(() => this.refresh(), REFRESH_SECONDS * 1000);
      return;
    }
    const under = new AbortController();
    this._under = under;
    try {
      const answer = await this._load(page * PAGE, PAGE, under.signal);
      if (this._closed || this._under !== under) return;
      troubles.over(this);
      this._take(page, answer);
    } catch (error) {
      if (this._closed || this._under !== under || error.name === "AbortError") return;
      if (!(error instanceof Refused)) throw error;
      this._fresh.set(page, true); // not asked again before the next refresh
      troubles.note(this, error);
    } finally {
      if (this._under === under) {
        this._under = null;
        this._fetch();
      }
    }
  }

  _take(page, answer) {
    this._fresh.set(page, true);
    this._matching = answer.matching;
    answer.categories.forEach((card, n) => this._cards.set(page * PAGE + n, card));
    for (let n = page * PAGE + answer.categories.length; n < (page + 1) * PAGE; n += 1) this._cards.delete(n);
    this._told(answer);
    this._draw();
    if (this._from) window.scrollTo(0, this._from);
    this._from = 0;
  }

  _draw() {
    if (this._closed || this._matching === null) return;
    const shape = this._shape();
    const rows = Math.ceil(this._matching / shape.columns);
    this.element.style.height = `${Math.max(0, rows * (shape.height + shape.gap) - shape.gap)}px`;
    const [first, last] = this._range(shape);
    const held = document.activeElement;
    this._drop(first, last, held);
    let place = this.element.firstElementChild;
    for (let index = first; index < last; index += 1) {
      const card = this._cards.get(index);
      if (!card) continue;
      const shown = this._shown.get(card.id) ?? this._make();
      this._shown.set(card.id, shown);
      shown.show(card);
      this._put(shown.element, index, shape);
      if (shown.element === place) place = place.nextElementSibling;
      else this.element.insertBefore(shown.element, place);
    }
    holdOn(this.element, held);
    this._forget(first, last);
    this._fetch();
  }

  /** Take away what is out of sight, but for what is focused. */
  _drop(first, last, held) {
    const wanted = new Set();
    for (let index = first; index < last; index += 1) wanted.add(this._cards.get(index)?.id);
    for (const [id, shown] of this._shown) {
      if (wanted.has(id) || (shown.element.contains(held) && this._matching)) continue;
      shown.element.remove();
      this._shown.delete(id);
    }
  }

  _put(element, index, { columns, gap, width, height }) {
    const [row, column] = [Math.floor(index / columns), index % columns];
    element.style.width = `${width}px`;
    element.style.height = `${height}px`;
    element.style.transform = `translate(${column * (width + gap)}px, ${row * (height + gap)}px)`;
    element.setAttribute("aria-setsize", String(this._matching));
    element.setAttribute("aria-posinset", String(index + 1));
  }

  _forget(first, last) {
    if (this._cards.size <= REMEMBERED) return;
    for (const index of this._cards.keys()) {
      if (index >= first - PAGE && index < last + PAGE) continue;
      this._cards.delete(index);
      this._fresh.delete(Math.floor(index / PAGE));
    }
  }
}
