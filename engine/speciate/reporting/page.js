"use strict";
(() => {
  const root = document.documentElement;
  // What goes wrong is left where a reader, or a test, can see it.
  const note = (text) => { root.dataset.errors = [root.dataset.errors, text].filter(Boolean).join("\n"); };
  addEventListener("error", (event) => note(event.message));
  addEventListener("securitypolicyviolation", (event) => note(`blocked: ${event.effectiveDirective}`));
  root.classList.add("js");

  const pick = (name) => document.getElementById(`pick-${name}`);
  const chosen = (name) => pick(name)?.value;
  const show = () => {
    for (const panel of document.querySelectorAll(".panel")) {
      panel.hidden = ["benchmark", "order"].some((name) => panel.dataset[name] !== undefined && panel.dataset[name] !== chosen(name));
    }
    for (const empty of document.querySelectorAll(".nothing")) {
      empty.hidden = [...empty.parentElement.querySelectorAll(".panel")].some((panel) => !panel.hidden);
    }
  };
  for (const name of ["benchmark", "order"]) pick(name)?.addEventListener("change", show);
  show();

  const number = (cell) => (cell.dataset.value === undefined ? NaN : Number(cell.dataset.value));
  const compare = (a, b, sign) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) && Number.isNaN(y)) return sign * a.textContent.localeCompare(b.textContent);
    // Where there is no value, the row goes last either way.
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return sign * (x - y);
  };
  const sort = (button) => {
    const head = button.closest("th");
    const place = [...head.parentElement.children].indexOf(head);
    const way = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way);
    const body = head.closest("table").tBodies[0];
    const sign = way === "ascending" ? 1 : -1;
    body.append(...[...body.rows].sort((a, b) => compare(a.cells[place], b.cells[place], sign)));
  };
  for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => sort(button));

  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  document.getElementById("theme")?.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });
  root.dataset.script = "ready";
})();
