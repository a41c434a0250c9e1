// The frame around the views: where one is, how the pipeline is, which universe, and the token if one is needed.

import { barred, halted, undo, undoable } from "./actions.js";
import { onLocked, troubles } from "./api.js";
import { byId, debounce, fit, h, say } from "./dom.js";
import { apart, called, many, short } from "./format.js";
import { concerns, condition, live } from "./live.js";
import { announce } from "./notices.js";
import { chosen, here, link, settle } from "./route.js";
import { openCategories } from "./gallery.js";
import { openCategory } from "./category.js";
import { openOverview } from "./overview.js";
import { openToken } from "./token.js";

const OPEN = { overview: openOverview, categories: openCategories, category: openCategory };
const QUIET_SECONDS = 5;

let view = null;
let shownAs = "";
let universe = null;
let entered = false;

const several = () => (live.state?.universes.length ?? 0) > 1;
const sign = (one) => JSON.stringify([one.task, one.stream]);

/** What a view knows of the page around it. */
const context = {
  scrolled: 0,
  /** What the gallery was set to last. */
  filters: {},
  get universe() {
    return live.state ? (chosen(live.state.universes, here().parameters) ?? universe) : universe;
  },
  get parameters() {
    return here().parameters;
  },
  href: (path, more = {}) => link(path, universe, several(), more),
  /** Keep what a view's controls are set to in the address. */
  settle: (path, more) => settle(link(path, universe, several(), more)),
  go: (path) => location.replace(link(path, universe, several())),
};

function show(moved) {
  if (live.link === "locked" || !live.state) return;
  const { view: name, id, parameters } = here();
  universe = chosen(live.state.universes, parameters);
  const as = `${name} ${id} ${universe && sign(universe)}`;
  frame(name);
  // An address that was changed is opened anew, be it only by its parameters.
  if (as === shownAs && !moved) return;
  view?.close();
  shownAs = as;
  // Where one was when one left this view, if one comes back to it.
  context.scrolled = history.state?.y ?? 0;
  const main = fit(byId("view"));
  if (universe) view = OPEN[name](main, context, id);
  else view = nothing(main);
  if (moved) {
    window.scrollTo(0, 0);
    (main.querySelector("h1") ?? main).focus({ preventScroll: true });
  }
}

/** No task has opened its state yet, or not the one that the address names: say how it stands. */
function nothing(main) {
  const [words, reason] = [h("h1", { tabindex: "-1" }), h("p", { class: "empty" })];
  const goesOn = "There are no categories to show yet; this page goes on by itself as soon as there are.";
  main.append(words, reason, h("p", { class: "quiet" }, goesOn));
  const tell = () => {
    const [, now, why] = condition();
    const elsewhere = live.state.universes.length > 0;
    say(words, elsewhere ? `${wanted(context.parameters)} is not here` : now);
    say(reason, elsewhere ? "It may not be open yet, or another process has it." : why);
  };
  tell();
  return { close: live.on("state", tell) };
}

/** The universe that the address names, in words. */
function wanted(parameters) {
  const [task, stream] = [parameters.get("task"), parameters.get("stream")];
  const whole = `Task ${apart(task ?? "0")}`;
  return stream === null ? whole : `${whole}, stream ${apart(stream || "(no name)")},`;
}

function frame(name) {
  for (const [id, path, views] of [
    ["nav-overview", "/", ["overview"]],
    ["nav-categories", "/categories", ["categories", "category"]],
  ]) {
    const anchor = byId(id);
    anchor.setAttribute("href", context.href(path));
    if (views.includes(name)) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  byId("brand").setAttribute("href", context.href("/"));
}

function status() {
  const [kind, words, reason] = condition();
  const state = byId("status");
  state.dataset.condition = kind;
  say(byId("status-text"), words);
  say(byId("status-reason"), kind === "away" || kind === "wait" ? reason : "");
  const lost = live.link === "lost";
  byId("lost").hidden = !lost;
  byId("lost").classList.toggle("calm", live.ended);
  const cut = live.ended ? "The run has ended." : "The connection to the page is lost.";
  say(byId("lost-words"), live.why ? `The page cannot tell: ${live.why}.` : cut);
  const left = Math.ceil((live.retryAt - Date.now()) / 1000);
  say(byId("lost-wait"), lost && left > 0 ? `Trying again in ${left} s.` : "Trying again …");
  // Without a connection nothing is answered, and that is told already.
  say(byId("trouble"), troubles.why && live.link === "open" ? `The page cannot tell: ${troubles.why}` : "");
  const held = halted() || (undoable(universe) ? "" : "there is nothing to undo");
  const button = byId("undo");
  button.disabled = Boolean(held);
  button.title = held;
  const why = barred();
  say(byId("why-not"), why && live.state ? `Nothing can be changed by hand: ${why}` : "");
}

function picker(state) {
  const select = byId("universe");
  byId("universe-pick").hidden = !several();
  const options = state.universes.map(sign).join();
  if (select.dataset.options !== options) {
    select.dataset.options = options;
    fit(
      select,
      state.universes.map((one) =>
        h(
          "option",
          { value: sign(one) },
          one.stream === null ? `task ${one.task}` : `${apart(one.stream || "(no name)")} · task ${one.task}`,
        ),
      ),
    );
  }
  select.value = universe ? sign(universe) : "";
}

function described(state) {
  say(byId("title"), state.title);
  say(byId("version"), `Speciate ${state.version}`);
  const now = context.universe;
  document.title = `${now ? short(now.categories) : "–"} categories · ${state.title}`;
}

function choose(event) {
  const [task, stream] = JSON.parse(event.target.value);
  const path = here().view === "overview" ? "/" : "/categories";
  location.hash = link(path, { task, stream }, true);
}

let unsaid = [];
let saidAt = 0;

function births(news) {
  unsaid.push(...news.filter((one) => one.kind === "birth" && universe && concerns(universe, one)));
  if (!unsaid.length || Date.now() - saidAt < QUIET_SECONDS * 1000) return;
  const names = unsaid.slice(0, 5).map((one) => called(one.category, one.label));
  announce(`${many(unsaid.length, "birth")}: ${names.join(", ")}${unsaid.length > 5 ? " and more" : ""}`);
  unsaid = [];
  saidAt = Date.now();
}

function locked() {
  if (shownAs === "token") return;
  view?.close();
  shownAs = "token";
  view = openToken(fit(byId("view")), () => {
    shownAs = "";
    entered = true;
    live.start();
  });
}

history.scrollRestoration = "manual";
onLocked(() => live.lock());
window.addEventListener("hashchange", () => show(true));
const remember = debounce(150, (hash) => hash === location.hash && history.replaceState({ y: window.scrollY }, ""));
window.addEventListener("scroll", () => remember(location.hash), { passive: true });
byId("universe").addEventListener("change", choose);
byId("retry").addEventListener("click", () => live.start());
byId("undo").addEventListener("click", () => universe && undo(universe));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (byId("view").querySelector("h1") ?? byId("view")).focus();
});
let cut = false;
live.on("link", () => {
  if (cut && live.link === "open") troubles.clear();
  cut = live.link === "lost";
  status();
  if (live.link === "locked") locked();
});
live.on("state", (state) => {
  show(entered);
  entered = false;
  picker(state);
  described(state);
  status();
});
live.on("news", status);
live.on("fresh", births);
troubles.addEventListener("change", status);
live.start();
