// Elements without markup: everything from the server goes in as text.

const SVG = "http://www.w3.org/2000/svg";
const FOCUSABLE = "a, button:enabled, input:enabled";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** An HTML element. A property that is a function listens to the event of its name. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** Put other children into an element. */
export function fit(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Set a text, and leave the element alone if it says so already. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The element of the page with this id. */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/**
 * Make the children of `host` one for each item, in order; those whose key and `sign` are as before stay as they are,
 * so that focus, pictures and animations survive a refresh. Returns those whose key is new.
 */
export function keep(host, items, key, sign, build) {
  const old = new Map();
  const names = new Set(items.map((item) => String(key(item))));
  const added = [];
  let held = document.activeElement;
  for (const child of [...host.children]) {
    if (names.has(child.dataset.key)) old.set(child.dataset.key, child);
    else child.remove();
  }
  let place = host.firstElementChild;
  for (const item of items) {
    const was = old.get(String(key(item)));
    const signature = sign(item);
    let child = was;
    if (was?.dataset.sign !== signature) {
      child = build(item);
      child.dataset.key = String(key(item));
      child.dataset.sign = signature;
      if (was === place && was) place = child;
      if (was) held = replace(was, child) ?? held;
      else added.push(child);
    }
    if (child === place) place = place.nextElementSibling;
    else host.insertBefore(child, place);
  }
  holdOn(host, held);
  return added;
}

/** Give the focus back to an element that was moved, which costs it the focus. */
export function holdOn(host, held) {
  if (held !== document.activeElement && host.contains(held)) held.focus({ preventScroll: true });
}

/** Put one in place of another; what has the focus instead of what had it in the other, if that had it. */
function replace(child, made) {
  const at = [...child.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  child.replaceWith(made);
  if (at < 0) return null;
  const there = [...made.querySelectorAll(FOCUSABLE)];
  const next = there[Math.min(at, there.length - 1)] ?? null;
  next?.focus({ preventScroll: true });
  return next;
}

/** Call `then` once nothing has called for `pause` milliseconds. */
export function debounce(pause, then) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => then(...given), pause);
  };
}
