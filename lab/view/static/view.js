// Keyboard shortcuts. Every page also works without this file, by its links and forms.
"use strict";

const help = document.getElementById("help");
const steps = [...document.querySelectorAll("[data-step]")];

function follow(selector, from = document) {
  const link = from.querySelector(selector);
  if (link) link.click();
}

function step(by) {
  const at = steps.indexOf(document.activeElement?.closest("[data-step]"));
  const next = steps[at < 0 ? (by > 0 ? 0 : -1) : at + by];
  if (!next) return follow(by > 0 ? "a[rel=next]" : "a[rel=prev]");
  next.focus();
  next.scrollIntoView({ block: next.matches("tr") ? "nearest" : "start" });
  // Keep the current turn in the address without adding steps to the history.
  history.replaceState(null, "", `#${next.id}`);
}

function here() {
  return document.activeElement?.closest("[data-step]") ?? document;
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  e: () => {
    const links = here().querySelectorAll("[data-explain]");
    links[links.length - 1]?.click();
  },
  u: () => follow("a[data-up]"),
  "/": () => document.getElementById("q")?.focus(),
  "?": () => help.showPopover(),
  Enter: () => {
    if (document.activeElement?.matches("[data-step]")) follow("a", document.activeElement);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.matches(":popover-open")) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = keys[event.key];
  if (!act) return;
  if (event.key !== "Enter") event.preventDefault();
  act();
});

help.addEventListener("toggle", (event) => {
  if (event.newState === "open") help.querySelector("button").focus();
});
if (location.hash) document.getElementById(location.hash.slice(1))?.focus();
