// The overview: how the pipeline is, what it has found, and what happens just now.

import { Chart, spark } from "./chart.js";
import { Poll, get, naming } from "./api.js";
import { Blank } from "./blank.js";
import { fit, h, s, say } from "./dom.js";
import { lasting, many, percent, short, span, whole } from "./format.js";
import { Feed } from "./feed.js";
import { condition, live } from "./live.js";
import { growth, margins } from "./plots.js";
import { Suggested } from "./suggested.js";

const TIMELINE_SECONDS = 2;
const SHARES = ["busy", "backpressured", "idle"];

function tile(id, title) {
  const figure = h("p", { class: "figure", id });
  const note = h("p", { class: "note" });
  const line = s("svg", { class: "spark", "aria-hidden": "true" });
  const element = h("section", { class: "panel tile", "aria-label": title }, h("h2", {}, title), figure, note, line);
  return {
    element,
    show(value, unit, words, past) {
      fit(figure, value, unit && h("span", { class: "unit" }, unit));
      say(note, words);
      spark(
        line,
        past.filter((one) => one !== null),
      );
    },
  };
}

/** The big figures. */
class Figures {
  constructor() {
    this._mark = h("span", { class: "mark", "aria-hidden": "true" });
    this._condition = h("span", { id: "condition" });
    this._reason = h("span", { class: "quiet" });
    this._said = h("p", { class: "condition" }, this._mark, h("span", {}, this._condition, " ", this._reason));
    this._count = h("p", { class: "count", id: "figure-categories" });
    this._parts = h("p", { class: "parts" });
    this._bar = h(
      "div",
      { class: "kinds", "aria-hidden": "true" },
      h("span", { class: "known" }),
      h("span", { class: "born" }),
    );
    this.hero = h(
      "section",
      { class: "panel hero", "aria-label": "Status and categories" },
      this._said,
      h("div", { class: "hero-figure" }, this._count, h("div", {}, h("h2", {}, "categories"), this._parts)),
      this._bar,
    );
    this._rate = tile("figure-rate", "Events per second");
    this._lag = tile("figure-lag", "Lag");
    this._rejected = tile("figure-rejected", "Rejections");
    this._latency = tile("figure-latency", "Latency");
    this.tiles = [this._rate, this._lag, this._rejected, this._latency].map((one) => one.element);
  }

  show(state, universe) {
    const [kind, words, reason] = condition();
    this._said.dataset.condition = kind;
    say(this._condition, reason ? `${words}:` : words);
    say(this._reason, reason || (kind === "well" ? `for ${lasting(state.seconds)}` : ""));
    const born = universe.categories - universe.known;
    say(this._count, whole(universe.categories));
    this._count.classList.toggle("long", universe.categories > 9999);
    fit(
      this._parts,
      h("span", { class: "known" }, whole(universe.known)),
      " known + ",
      h("span", { class: "born" }, whole(born)),
      " discovered",
    );
    this._bar.firstElementChild.style.flexGrow = String(universe.known);
    this._bar.lastElementChild.style.flexGrow = String(born);
    const past = state.running ? live.past : [];
    const of = (take) => past.map(take);
    this._rate.show(
      state.running ? short(state.events_per_second) : "–",
      "",
      state.running ? `${whole(state.answered)} in this run` : "nothing runs",
      of((one) => one.events_per_second),
    );
    if (state.lag === null)
      this._lag.show("–", "", state.running ? "the source's end is not known" : "nothing runs", []);
    else
      this._lag.show(
        short(state.lag),
        state.lag_unit,
        state.lag ? "not read yet" : "nothing left to read",
        of((one) => one.lag),
      );
    const dropped = state.dropped ? `; ${many(state.dropped, "event")} dropped` : "";
    const rejected = (state.rejected ? `of ${whole(state.assigned + state.rejected)} inputs` : "none so far") + dropped;
    this._rejected.show(
      short(state.rejected),
      "",
      rejected,
      past.slice(1).map((one, n) => Math.max(0, one.rejected - past[n].rejected)),
    );
    const within =
      state.latency_p99 === null
        ? state.running
          ? "no events just now"
          : "nothing runs"
        : `median; 99 % within ${span(state.latency_p99).join(" ")}`;
    this._latency.show(
      ...span(state.latency_p50),
      within,
      of((one) => one.latency_p50),
    );
  }
}

/** What the stages spend their time on. */
class Stages {
  constructor() {
    this._list = h("ul", { class: "stages", id: "stages" });
    this._legend = h(
      "p",
      { class: "legend", "aria-hidden": "true" },
      SHARES.map((share) => h("span", {}, h("span", { class: `swatch ${share}` }), share)),
    );
    this.element = h(
      "section",
      { class: "panel stages-panel", "aria-labelledby": "stages-title" },
      h("h2", { id: "stages-title" }, "Where the time goes"),
      this._list,
      this._legend,
    );
    this._rows = new Map();
  }

  show(stages) {
    const names = Object.keys(stages);
    this._legend.hidden = !names.length;
    if (names.join() !== [...this._rows.keys()].join() || !this._list.children.length) {
      this._rows = new Map(names.map((name) => [name, this._row()]));
      fit(
        this._list,
        names.length
          ? names.map((name) =>
              h("li", {}, h("span", { class: "stage" }, name), this._rows.get(name).bar, this._rows.get(name).words),
            )
          : h("li", { class: "empty" }, "No stage is at work."),
      );
    }
    for (const [name, row] of this._rows) {
      for (const share of SHARES) row.parts[share].style.flexGrow = String(stages[name][share] ?? 0);
      const { busy = 0, backpressured = 0, idle = 0 } = stages[name];
      const held = backpressured >= 0.005 ? ` · held back ${percent(backpressured)}` : "";
      say(row.words, `busy ${percent(busy)}${held} · idle ${percent(idle)}`);
    }
  }

  _row() {
    const parts = Object.fromEntries(SHARES.map((share) => [share, h("span", { class: share })]));
    return {
      parts,
      bar: h("span", { class: "bar", "aria-hidden": "true" }, Object.values(parts)),
      words: h("span", { class: "shares" }),
    };
  }
}

/** A chart with a heading, and words where there is nothing to draw. */
function panel(id, title, note, place, label) {
  const words = h("p", { class: "quiet small" }, note);
  const [empty, blank] = [h("p", { class: "empty", hidden: true }), new Blank()];
  const element = h(
    "section",
    { class: `panel plot ${place}`, "aria-labelledby": id },
    h("div", { class: "panel-head" }, h("h2", { id }, title), words),
    empty,
    blank.element,
  );
  const chart = new Chart(element, { label, name: place });
  return {
    element,
    /** Show this, or if it is nothing say why. */
    show(data, why) {
      blank.fill();
      empty.hidden = Boolean(data);
      say(empty, why);
      if (data) chart.show(data);
      else chart.hide();
    },
    close() {
      blank.close();
      chart.close();
    },
  };
}

/** Open the view; what it gives back closes it. */
export function openOverview(main, context) {
  const large = new Figures();
  const stages = new Stages();
  const kinds = panel(
    "growth-title",
    "Categories over the stream",
    "x: record number · dots: births",
    "growth",
    "Number of categories over the stream",
  );
  const doubt = panel(
    "margin-title",
    "Evidence margin",
    "nats over the runner-up · line: median, band: 10 to 90 %",
    "margin",
    "Evidence margin over the stream",
  );
  const feed = new Feed(context);
  const suggested = new Suggested(context);
  main.append(
    h("h1", { tabindex: "-1", class: "unseen" }, "Overview"),
    h(
      "div",
      { class: "overview" },
      large.hero,
      h("div", { class: "tiles" }, large.tiles),
      kinds.element,
      doubt.element,
      stages.element,
      h("div", { class: "side" }, feed.element, suggested.element),
    ),
  );
  const show = (state) => {
    const universe = context.universe;
    large.show(state, universe);
    stages.show(state.stages);
    suggested.element.hidden = !state.suggests;
  };
  const ends = [live.on("state", show), live.on("link", () => show(live.state))];
  show(live.state);
  const poll = new Poll(
    TIMELINE_SECONDS,
    (signal) => get("/api/timeline", naming(context.universe), signal),
    (timeline) => {
      const there = timeline.events.length > 0;
      const unread = "Nothing has been read yet.";
      kinds.show(there && growth(timeline, context.universe.known), unread);
      doubt.show(there && margins(timeline), there ? "There are no margins yet." : unread);
    },
  );
  return {
    close() {
      ends.forEach((end) => end());
      poll.stop();
      [kinds, doubt, feed, suggested].forEach((one) => one.close());
    },
  };
}
