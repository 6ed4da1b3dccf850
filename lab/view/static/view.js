// Keyboard shortcuts, long lists and live reload. Every page also works without this file, by its links and forms.
"use strict";

const ROWS = 100; // rows that the server sends at once
const AHEAD = 20; // rows drawn above and below those in sight
const LOOK_EVERY = 2000; // milliseconds between two looks at a growing run
const help = document.getElementById("help");
let list = null;

// A table of which only the rows in sight are in the page; the others are fetched when they are scrolled to.
class List {
  constructor(box) {
    this.box = box;
    this.body = box.querySelector("tbody");
    this.rows = new Map();
    this.asked = new Set();
    this.at = -1;
    this.url = box.dataset.rows;
    const first = Number(box.dataset.first ?? 0);
    [...this.body.rows].forEach((row, place) => this.rows.set(first + place, row));
    this.total = Number(box.dataset.total ?? this.rows.size);
    this.height = this.body.rows[0].getBoundingClientRect().height;
    for (let chunk = 0; chunk * ROWS < this.total; chunk++) {
      const last = Math.min(this.total, (chunk + 1) * ROWS) - 1;
      if (this.rows.has(chunk * ROWS) && this.rows.has(last)) this.asked.add(chunk);
    }
    // Columns keep their widths while rows come and go.
    const heads = [...box.querySelectorAll("thead th")];
    const widths = heads.map((head) => head.getBoundingClientRect().width);
    if (this.rows.size < this.total) {
      heads.forEach((head, place) => (head.style.width = `${Math.ceil(widths[place])}px`));
      const table = box.querySelector("table");
      table.style.width = `${Math.ceil(widths.reduce((sum, width) => sum + width, 0))}px`;
      table.style.tableLayout = "fixed";
    }
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.draw();
  }

  // Show the rows in sight, and fetch those that are not here yet.
  draw(anew = false) {
    const step = (place) => Math.floor(place / AHEAD) * AHEAD;
    const sight = Math.ceil(this.box.clientHeight / this.height);
    const first = Math.max(0, step(this.box.scrollTop / this.height) - AHEAD);
    const last = Math.min(this.total, first + step(sight) + 4 * AHEAD);
    if (!anew && first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    for (let chunk = Math.floor(first / ROWS); chunk * ROWS < last; chunk++) this.fetch(chunk);
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const shown = [];
    for (let place = first; place < last; place++) shown.push(this.rows.get(place) ?? this.space(1));
    this.body.replaceChildren(this.space(first), ...shown, this.space(this.total - last));
    if (focused && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  space(rows) {
    const row = document.createElement("tr");
    row.className = "space";
    row.setAttribute("aria-hidden", "true");
    row.style.height = `${rows * this.height}px`;
    row.append(document.createElement("td"));
    row.hidden = rows === 0;
    return row;
  }

  async fetch(chunk) {
    if (!this.url || this.asked.has(chunk)) return;
    this.asked.add(chunk);
    const answer = await fetch(`${this.url}${this.url.includes("?") ? "&" : "?"}from=${chunk * ROWS}`);
    if (!answer.ok) return;
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text(); // of our own server, which escapes everything
    [...holder.content.querySelectorAll("tr")].forEach((row, place) => this.rows.set(chunk * ROWS + place, row));
    this.draw(true);
    if (this.waits) this.go(this.at);
  }

  // Go to a row: bring it in sight and focus it.
  go(place) {
    this.at = Math.max(0, Math.min(place, this.total - 1));
    const top = this.at * this.height;
    const room = this.box.clientHeight - this.box.querySelector("thead").offsetHeight;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + room) this.box.scrollTop = top + this.height - room;
    this.draw();
    const row = this.rows.get(this.at);
    this.waits = !row;
    row?.focus({ preventScroll: true });
    // Keep the row in the address without adding steps to the history.
    history.replaceState(null, "", `#r${this.at}`);
  }

  get page() {
    return Math.max(1, Math.floor(this.box.clientHeight / this.height) - 2);
  }
}

function follow(selector, from = document) {
  from.querySelector(selector)?.click();
}

function step(by) {
  if (list) list.go(list.at < 0 && by < 0 ? list.total - 1 : list.at + by);
  else follow(by > 0 ? "a[rel=next]" : "a[rel=prev]");
}

// Go to the next cell of the strip of one kind.
function along(kind, by) {
  const cells = [...document.querySelectorAll(".strip a")];
  let place = cells.findIndex((cell) => cell.hasAttribute("aria-current"));
  if (place < 0 && by < 0) place = cells.length;
  do place += by;
  while (cells[place] && !cells[place].dataset.kinds.split(" ").includes(kind));
  cells[place]?.click();
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  n: () => along("probe", 1),
  p: () => along("probe", -1),
  f: () => along("flip", 1),
  b: () => along("flip", -1),
  e: () => [...document.querySelectorAll("[data-explain]")].at(-1)?.click(),
  u: () => follow("a[data-up]"),
  "/": () => document.getElementById("q")?.focus(),
  "?": () => help.showPopover(),
};
for (const number of [1, 2, 3, 4, 5]) keys[number] = () => follow(`.tabs a:nth-of-type(${number})`);
// These keep their usual meaning outside of a list.
const inList = {
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  PageDown: () => list.go(list.at + list.page),
  PageUp: () => list.go(list.at - list.page),
  Home: () => list.go(0),
  End: () => list.go(list.total - 1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.matches(":popover-open")) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.matches("[data-step]")) return follow("a", event.target);
  const act = keys[event.key] ?? (list?.box.contains(event.target) ? inList[event.key] : undefined);
  if (!act) return;
  event.preventDefault();
  act();
});

help.addEventListener("toggle", (event) => {
  if (event.newState === "open") help.querySelector("button").focus();
});

// Make the content work: once after loading, and again whenever it is renewed.
function start() {
  const box = document.querySelector(".list");
  list = box?.querySelector("tbody tr") ? new List(box) : null;
  document.querySelector(".strip [aria-current]")?.scrollIntoView({ block: "nearest" });
}

async function renew() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [at, top, left, focused] = [list?.at, list?.box.scrollTop, list?.box.scrollLeft, list?.box.contains(document.activeElement)];
  document.querySelector("main").replaceWith(page.querySelector("main"));
  const [before, after] = [document.querySelector("header .state"), page.querySelector("header .state")];
  if (before && after) before.replaceWith(after);
  else before?.remove();
  document.body.dataset.version = page.body.dataset.version;
  document.body.toggleAttribute("data-pending", page.body.hasAttribute("data-pending"));
  start();
  if (!list || at === undefined) return;
  [list.box.scrollTop, list.box.scrollLeft, list.at] = [top, left, at];
  if (focused && at >= 0) list.go(at);
}

async function watch() {
  if (!document.body.hasAttribute("data-pending")) return;
  try {
    const state = document.hidden ? null : await (await fetch("/version")).json();
    if (state && (state.version !== document.body.dataset.version || !state.pending)) await renew();
  } catch {
    // The server was stopped; the page stays as it is.
  }
  setTimeout(watch, LOOK_EVERY);
}

document.documentElement.classList.add("scripted");
start();
function toFragment() {
  const row = /^#r(\d+)$/.exec(location.hash);
  if (row && list) list.go(Number(row[1]));
  else if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.focus();
}
toFragment();
window.addEventListener("hashchange", toFragment);
setTimeout(watch, LOOK_EVERY);
