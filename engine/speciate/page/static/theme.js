// Loaded before the page is drawn, so that a chosen scheme does not flash. No module: those come too late.
"use strict";

(() => {
  const KEY = "speciate-theme";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden here: then it is the system's scheme
    }
  }

  function remember(scheme) {
    try {
      localStorage.setItem(KEY, scheme);
    } catch {
      // it holds until the page is left
    }
  }

  const given = chosen();
  if (given === "light" || given === "dark") root.dataset.theme = given;

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      const other = isDark() ? "Light" : "Dark";
      button.textContent = other;
      button.setAttribute("aria-label", `${other} colours`);
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      show();
    });
    dark.addEventListener("change", show);
    show();
  });
})();
