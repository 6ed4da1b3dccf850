// The keys of the judging screen. The page also works without this file, by its buttons.
"use strict";

const help = document.getElementById("help");
const simple = ["0", "1", "2", "f", "r", "x", "s", "u"];
const named = { Enter: "enter", Escape: "escape", ArrowLeft: "left", ArrowRight: "right" };

// Send a form as the button of it does, and show the page that comes back in place.
async function send(form, key) {
  const fields = new URLSearchParams(new FormData(form));
  fields.set("key", key);
  const answer = await fetch("/press", { method: "POST", body: fields });
  if (!answer.ok) {
    document.getElementById("message").textContent = await answer.text();
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.title = page.title;
  for (const part of ["header .pages", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
  history.replaceState(null, "", new URL(answer.url).pathname + new URL(answer.url).search);
  focusHere();
}

function focusHere() {
  const here = document.querySelector(".is-here") ?? document.querySelector("main");
  here.focus({ preventScroll: true });
  here.scrollIntoView({ block: "nearest" });
}

// Move the selection in the list; the server learns of it with the next key.
function move(by) {
  const items = [...document.querySelectorAll("[data-memory]")];
  const at = items.findIndex((item) => item.classList.contains("is-here"));
  const next = items[Math.max(0, Math.min(items.length - 1, at + by))];
  if (!next) return;
  items[at]?.classList.remove("is-here");
  items[at]?.removeAttribute("aria-current");
  next.classList.add("is-here");
  next.setAttribute("aria-current", "true");
  focusHere();
}

function note() {
  const details = document.querySelector(".is-here .note");
  if (!details) return;
  details.open = true;
  details.querySelector("input[name=typed]").focus();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  send(form, event.submitter?.value ?? form.querySelector("button").value);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.matches(":popover-open")) return;
  if (event.target.closest("input")) {
    if (event.key === "Escape") focusHere();
    return;
  }
  // Enter and space press a focused button.
  if (event.target.closest("button, summary") && [" ", "Enter"].includes(event.key)) return;
  const choosing = document.getElementById("types") !== null;
  const form = document.querySelector(".is-here .grades") ?? document.getElementById("act");
  const key = named[event.key] ?? event.key;
  let act = null;
  if (key === "?") act = () => help.showPopover();
  else if (choosing && (/^[a-z]$/.test(key) || key === "enter" || key === "escape")) act = () => send(document.getElementById("act"), key);
  else if (choosing) return;
  else if (["j", "ArrowDown"].includes(key)) act = () => move(1);
  else if (["k", "ArrowUp"].includes(key)) act = () => move(-1);
  else if (key === "n") act = note;
  else if (key === "N") act = () => document.getElementById("reason").focus();
  else if (key === "/") act = () => document.getElementById("find")?.focus();
  else if (simple.includes(key) || ["enter", "left", "right"].includes(key)) act = () => send(form, key);
  if (!act) return;
  event.preventDefault();
  act();
});

help.addEventListener("toggle", (event) => {
  if (event.newState === "open") help.querySelector("button").focus();
});
focusHere();
