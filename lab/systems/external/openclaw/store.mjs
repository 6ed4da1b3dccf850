// Memories in and out of a plugin's own store, by its own tools (EX-33, EX-34).
import fs from "node:fs";
import path from "node:path";

import { Book } from "./block.mjs";
import { engineId } from "./world.mjs";

// The numbers that a tool takes for importance in place of labels, inside the usual bounds of .8 and .5.
const IMPORTANCE = { must_remember: 0.9, nice_to_have: 0.6, ignore: 0.3 };
const IMPORT = "memory_import";
const ADD = ["memory_store", "memory_add"];
const FORGET = ["memory_forget", "memory_delete"];
const LIST = "memory_list";
const OTHER = "other";
const DEFAULT_TABLE = "~/.openclaw/memory/lancedb";

export class Store {
  book = new Book();
  #plugin;
  #world;
  #scoping;
  #importance;
  #table = null;
  #merged = new Map();

  // `scoping`: where the lab takes scopes from; with `open`, every memory gets the plugin's default scope.
  constructor(plugin, world, { scoping, importance = {} }) {
    this.#plugin = plugin;
    this.#world = world;
    this.#scoping = scoping;
    this.#importance = { ...IMPORTANCE, ...importance };
  }

  get takes() {
    return this.#plugin.tools.has(IMPORT) || ADD.some((name) => this.#plugin.tools.has(name));
  }

  // Store memories and return own ids by key; null for one that the plugin did not keep.
  async remember(memories) {
    const ids = this.#plugin.tools.has(IMPORT) ? await this.#import(memories) : await this.#add(memories);
    for (const memory of memories) {
      const id = ids[memory.key];
      if (id === null) continue;
      const row = this.book.get(id);
      this.book.add(row ? { ...row, keys: [...(row.keys ?? []), memory.key] } : { id, ...pick(memory), keys: [memory.key] });
    }
    return ids;
  }

  // Forget memories; a row that several share is deleted with the last of them.
  async forget(keys) {
    const tool = FORGET.find((name) => this.#plugin.tools.has(name));
    if (!tool) return false;
    for (const id of [...this.book.ids()]) {
      const row = this.book.get(id);
      const left = row.keys?.filter((key) => !keys.includes(key));
      if (!left || left.length === row.keys.length) continue;
      if (left.length) {
        this.book.add({ ...row, keys: left });
        continue;
      }
      for (const own of [id, ...[...this.#merged].filter(([, main]) => main === id).map(([other]) => other)]) {
        await this.#plugin.call(tool, { memoryId: own });
      }
      this.book.delete(id);
    }
    return true;
  }

  // The row that stands for an id: a memory of which a plugin made several rows has one.
  main(id) {
    return this.#merged.get(id) ?? id;
  }

  // Compare the plugin's rows with those known; `sources` come with new ones.
  async changes(sources) {
    const rows = await this.rows();
    if (rows === null) return { created: [], updated: [], deleted: [] };
    const there = new Set(rows.map((row) => row.id));
    const created = rows.filter((row) => !this.book.get(row.id) && !this.#merged.has(row.id));
    const updated = rows.filter((row) => this.book.get(row.id) && this.book.get(row.id).text !== row.text);
    const deleted = [...this.book.ids()].filter((id) => !there.has(id));
    for (const row of created) this.book.add({ ...row, sources: sources(row.text) });
    for (const row of updated) this.book.add({ ...this.book.get(row.id), text: row.text });
    for (const id of deleted) this.book.delete(id);
    const stored = ({ id }) => ({ id, text: this.book.get(id).text, sources: this.book.get(id).sources ?? this.book.get(id).keys ?? [] });
    return { created: created.map(stored), updated: updated.map(stored), deleted };
  }

  // All rows of the store, or null where the plugin shows them nowhere.
  async rows() {
    const table = await this.#lance();
    if (table !== null) return table;
    if (!this.#plugin.tools.has(LIST)) return null;
    const { memories, items } = await this.#plugin.call(LIST, {});
    return (memories ?? items ?? []).map((row) => ({ id: String(row.id), text: String(row.memory ?? row.text ?? ""), category: row.category }));
  }

  async count() {
    return (await this.rows())?.length ?? this.book.size;
  }

  // One file for all of them: the plugin embeds each, and keeps the time and the label that the memory has.
  async #import(memories) {
    const file = path.join(this.#world.home, "lab-import.json");
    const ids = Object.fromEntries(memories.map((memory) => [memory.key, engineId(memory.key)]));
    const rows = memories.map((memory) => ({
      id: ids[memory.key],
      text: memory.text,
      category: memory.category,
      importance_label: memory.label ?? "unknown",
      createdAt: memory.created_at,
      trust_tier: memory.trust,
      ...this.#scope(memory),
    }));
    for (const chunk of chunks(rows, 1000)) {
      fs.writeFileSync(file, JSON.stringify(chunk));
      const { imported, failures = [] } = await this.#plugin.call(IMPORT, { inPath: file, format: "json", dedupe: "none" });
      if (imported + failures.length !== chunk.length) throw new Error(`${imported} of ${chunk.length} memories were imported`);
      for (const { index } of failures) ids[memories.find((memory) => engineId(memory.key) === chunk[index].id).key] = null;
    }
    fs.rmSync(file);
    return ids;
  }

  // One call each, with the clock at the memory's own time.
  async #add(memories) {
    const name = ADD.find((one) => this.#plugin.tools.has(one));
    if (!name) throw new Error(`no tool of the plugin stores a memory: it has ${[...this.#plugin.tools.keys()].join(", ") || "none"}`);
    const ids = {};
    const { now } = this.#world;
    for (const memory of memories) {
      this.#world.now = Math.min(now, memory.created_at);
      const importance = this.#importance[memory.label];
      const given = { ...this.#category(name, memory.category), ...(importance === undefined ? {} : { importance }) };
      const details = await this.#plugin.call(name, name === "memory_add"
        ? { facts: [memory.text], longTerm: true, ...given }
        : { text: memory.text, ...given, ...this.#scope(memory) });
      if (details.error) this.#world.log("warn", `${name}: ${details.error}`);
      const made = details.id ?? details.existingId ?? details.memory?.id;
      const several = (details.results ?? []).filter((one) => one.event !== "DELETE" && one.metadata?.event !== "DELETE").map((one) => String(one.id));
      ids[memory.key] = made ?? several[0] ?? null;
      for (const other of several.slice(1)) if (!this.book.get(other)) this.#merged.set(other, several[0]);
    }
    this.#world.now = now;
    return ids;
  }

  // A category that the tool does not name is none to it.
  #category(tool, category) {
    const { enum: named, anyOf } = this.#plugin.tools.get(tool).parameters?.properties?.category ?? {};
    const known = named ?? anyOf?.map((one) => one.const);
    if (!known || known.includes(category)) return { category };
    return known.includes(OTHER) ? { category: OTHER } : {};
  }

  #scope(memory) {
    return this.#scoping === "open" ? {} : { scope: memory.scope };
  }

  async #lance() {
    const { dbPath, tableName = "memories" } = this.#plugin.config;
    const place = path.resolve(this.#world.home, (dbPath ?? DEFAULT_TABLE).replace(/^~(?=$|\/)/, this.#world.home));
    if (this.#table === null) {
      if (!fs.existsSync(place)) return dbPath === undefined ? null : [];
      const lancedb = await this.#plugin.package("@lancedb/lancedb");
      const base = await (lancedb.connect ?? lancedb.default.connect)(place);
      if (!(await base.tableNames()).includes(tableName)) return [];
      this.#table = await base.openTable(tableName);
    }
    await this.#table.checkoutLatest();
    const rows = await this.#table.query().select(["id", "text", "category"]).toArray();
    return rows.map(({ id, text, category }) => ({ id: String(id), text: String(text), category: String(category) }));
  }
}

function pick({ text, category }) {
  return { text, category };
}

function* chunks(list, size) {
  for (let at = 0; at < list.length; at += size) yield list.slice(at, at + size);
}
