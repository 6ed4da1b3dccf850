// Which stored memories a block of text before the prompt contains (EX-35). Plugins write texts, not ids.
const MARKUP = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const BULLET = /^\s*(?:\d+[.)]|[-*•])\s+/;
const TAG = /^\[[^\]\n]*\]\s*/;
const TAGS_AFTER = /\s+\[[^\]\n]*\]$/;
// A text that was cut is recognised by its beginning, if that is at least this long.
const SHORTEST = 20;
const CUT = /(?:…|\.\.\.)$/;

export class Book {
  #rows = new Map();
  #first = new Map();

  get(id) {
    return this.#rows.get(id);
  }

  ids() {
    return this.#rows.keys();
  }

  get size() {
    return this.#rows.size;
  }

  // A row is {id, text, category}, with the `keys` of given memories or the `sources` of captured ones.
  add(row) {
    this.delete(row.id);
    this.#rows.set(row.id, row);
    for (const form of forms(row.text)) {
      const [first] = form.split("\n", 1);
      if (!this.#first.has(first)) this.#first.set(first, new Map());
      this.#first.get(first).set(row.id, form);
    }
  }

  delete(id) {
    const row = this.#rows.get(id);
    if (!row) return;
    this.#rows.delete(id);
    for (const form of forms(row.text)) this.#first.get(form.split("\n", 1)[0])?.delete(id);
  }

  // The ids of the rows that a block names, in its order. Of rows with one text, those of the category in the line come
  // first, then those that the receipt lists (`likely`), then the oldest.
  named(block, likely = []) {
    const lines = block.split("\n");
    const found = [];
    for (let at = 0; at < lines.length; at += 1) {
      const match = this.#at(lines, at, likely, found);
      if (!match) continue;
      found.push(match.id);
      at += match.lines - 1;
    }
    return found;
  }

  #at(lines, at, likely, taken) {
    const bare = lines[at].replace(BULLET, "");
    const tags = bare.match(TAG)?.[0] ?? "";
    for (const rest of new Set([bare, bare.replace(TAG, ""), bare.replace(TAG, "").replace(TAG, "")])) {
      for (const start of new Set([rest, rest.replace(TAGS_AFTER, "")])) {
        const match = this.#best([...(this.#first.get(start.trim()) ?? [])], start, lines, at, tags, likely, taken);
        if (match) return match;
      }
      if (BULLET.test(lines[at]) && CUT.test(rest.trimEnd())) {
        const start = rest.trimEnd().replace(CUT, "");
        if (start.length < SHORTEST) continue;
        for (const row of this.#rows.values()) {
          if (!taken.includes(row.id) && forms(row.text).some((form) => form.startsWith(start))) return { id: row.id, lines: 1 };
        }
      }
    }
    return null;
  }

  #best(candidates, start, lines, at, tags, likely, taken) {
    const whole = candidates
      .filter(([id, form]) => {
        if (taken.includes(id)) return false;
        const wanted = form.split("\n");
        const rest = lines.slice(at + 1, at + wanted.length);
        return rest.length === wanted.length - 1 && wanted.slice(1).every((line, index) => fits(rest[index], line, index === rest.length - 1));
      })
      .map(([id, form], age) => {
        const category = this.#rows.get(id).category;
        const rank = likely.indexOf(id);
        return { id, lines: form.split("\n").length, order: [tags.includes(category ?? "\0") ? 0 : 1, rank < 0 ? likely.length : rank, age] };
      });
    whole.sort((one, other) => other.lines - one.lines || compare(one.order, other.order));
    return whole[0] ?? null;
  }
}

// The last line of a text may have tags after it.
function fits(line, wanted, last) {
  return line.trimEnd() === wanted.trimEnd() || (last && line.replace(TAGS_AFTER, "").trimEnd() === wanted.trimEnd());
}

function compare(one, other) {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at < 0 ? 0 : one[at] - other[at];
}

// How a text may stand in a block: as it is or with its markup escaped, on its lines or on one.
function forms(text) {
  const plain = text.trim();
  const escaped = plain.replace(/[&<>"']/g, (sign) => MARKUP[sign]);
  return [...new Set([plain, escaped, plain.replace(/\s+/g, " "), escaped.replace(/\s+/g, " ")])];
}
