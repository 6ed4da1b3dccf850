"use strict";
// Sorting, copying, and opening what a link points to. Without scripts the page shows the same.
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      // Names are compared as text; other cells by their number, if they have one, and those without come last.
      const value = row => {
        const cell = row.cells[column], text = cell.textContent.trim();
        const number = cell.tagName === "TH" ? NaN : parseFloat(cell.dataset.value ?? text.replace(/,/g, ""));
        return isNaN(number) ? text : number;
      };
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
        return (typeof x === "number" ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
const openTarget = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", openTarget);
openTarget();
if (navigator.clipboard) for (const code of document.querySelectorAll(".command code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(
    () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); }, () => {}));
  code.after(button);
}
