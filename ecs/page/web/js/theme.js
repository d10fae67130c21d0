"use strict";
// Before the first paint: the colours that were chosen last, or those of the system.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("ringlet-theme");
  } catch {
    // storage is shut off: the system's colours
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
