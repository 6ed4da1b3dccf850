// Host one OpenClaw memory plugin for the lab: protocol 1 over standard input and output (docs/external-plugins.md).
//
//     node host.mjs
//
// Everything else comes with `hello`: the folder of the plugin and its configuration in `settings`, the home, the clock
// and the embedder.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";

import { Plugin } from "./plugin.mjs";
import { Store } from "./store.mjs";
import { World } from "./world.mjs";

const KNOWN = [
  "plugin", "config", "keys", "model", "needs", "claims", "cutoff", "depth", "maxItemsAt", "probes", "stateful", "hooks", "messages", "text", "scopeTag",
  "importance", "receipt", "settle", "openclaw", "standIns", "processes",
];
const PROMPT_HOOKS = ["before_prompt_build", "before_agent_start"];
const CAPTURE_HOOK = "agent_end";
const RECEIPT = { marker: "autoRecall.receipt ", ids: "fusedTop", skipped: "skipped", fts: "ftsTop", vec: "vecTop" };
// Stands in for the key of a provider: the lab's own endpoints take any.
const ANY_KEY = "lab";
// An address at which nothing answers, for the description of a plugin before a run.
const NOWHERE = "http://127.0.0.1:9/v1";

class Refused extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

class Host {
  #lanes = {};
  #history = new Map();
  #open = new Set();

  async hello(request) {
    const settings = request.settings ?? {};
    const unknown = Object.keys(settings).filter((key) => !KNOWN.includes(key));
    if (unknown.length) throw new Refused("bad_settings", `settings.${unknown[0]}: unknown; known: ${KNOWN.join(", ")}`);
    if (typeof settings.plugin !== "string") throw new Refused("bad_settings", "settings.plugin: expected the folder of the plugin");
    const folder = path.resolve(settings.plugin);
    if (!fs.existsSync(folder)) throw new Refused("bad_settings", "settings.plugin: no such folder");
    const openclaw = settings.openclaw ? path.resolve(settings.openclaw) : null;
    this.settings = settings;
    this.receipt = { ...RECEIPT, ...settings.receipt };
    this.captures = request.captures === true;
    this.replies = request.replies !== false;
    const home = request.home ?? fs.mkdtempSync(path.join(os.tmpdir(), "recall-lab-"));
    const embedder = request.embedder ?? { url: NOWHERE, model: "none", dimension: 1 };
    const model = settings.model ?? null;
    this.embedder = embedder.model;
    this.world = new World({
      home, seed: `${request.seed} ${request.conversation}`, embedder: embedder.url, model: model?.url, processes: settings.processes === true,
    });
    this.world.now = request.now_ms;
    const config = filled(settings.config ?? {}, {
      home, "embedder.url": embedder.url, "embedder.model": embedder.model, "embedder.dimension": embedder.dimension,
      "model.url": model?.url ?? NOWHERE, "model.name": model?.name ?? "none",
    });
    for (const { at, env } of settings.keys ?? []) set(config, at, env === undefined ? ANY_KEY : process.env[env] ?? "");
    if (request.max_items && settings.maxItemsAt) set(config, settings.maxItemsAt, request.max_items);
    this.plugin = new Plugin({ folder, config, world: this.world, session: "agent:main:lab", openclaw, standIns: settings.standIns });
    await this.plugin.register();
    this.store = new Store(this.plugin, this.world, { scoping: request.scoping, importance: settings.importance });
    this.promptHooks = PROMPT_HOOKS.filter((name) => this.plugin.hooks.has(name)).slice(0, settings.hooks === "both" ? 2 : 1);
    if (!this.promptHooks.length) throw new Refused("no_hook", `the plugin registered neither ${PROMPT_HOOKS.join(" nor ")}`);
    return this.#identity(config);
  }

  #identity(config) {
    const { plugin, settings } = this;
    // A stand-in for a model proves that the plugin runs; what it then recalls is no result.
    const needs = (settings.needs ?? ["embedder"]).filter((need) => need !== "model" || !settings.model || settings.model.stub === true);
    const cutoff = (settings.maxItemsAt && get(config, settings.maxItemsAt)) ?? settings.cutoff ?? 5;
    const claims = ["relevant", ...(needs.includes("embedder") ? ["embedder"] : []), ...this.promptHooks.map((name) => `hook:${name}`)];
    const notes = [...plugin.ignored].sort().map((name) => `ignored:${name}`);
    return {
      protocol: 1, name: plugin.id, version: plugin.version,
      writes: plugin.hooks.has(CAPTURE_HOOK), cutoff, depth: settings.depth ?? cutoff,
      stateful: settings.stateful ?? true, observes: true, probes: settings.probes ?? "fresh",
      config: { node: process.versions.node, packages: plugin.packages, hooks: [...plugin.hooks.keys()], tools: [...plugin.tools.keys()] },
      sources: plugin.sources, needs, claims: settings.claims ?? claims, notes,
    };
  }

  async remember({ now_ms, memories }) {
    this.world.now = now_ms;
    if (!this.store.takes) throw new Refused("unsupported", "no tool of the plugin stores a memory");
    const stored = this.settings.text ?? "text";
    const ids = await this.store.remember(memories.map((memory) => ({ ...memory, text: memory[stored] })));
    await this.#settled();
    return { ids };
  }

  async forget({ now_ms, keys }) {
    this.world.now = now_ms;
    if (!(await this.store.forget(keys))) throw new Refused("unsupported", "no tool of the plugin forgets a memory");
    return {};
  }

  async recall({ now_ms, turn, text, scope, scoping, session, probe }) {
    this.world.now = now_ms;
    this.world.taken();
    const failed = this.world.failed;
    const name = probe ? `agent:main:probe-${turn}` : `agent:main:${session ?? "lab"}`;
    const tag = this.settings.scopeTag && scoping === "given" && scope ? this.settings.scopeTag.replace("{scope}", scope) : "";
    const said = probe ? [] : this.#said(session ?? "lab");
    const event = { prompt: tag + text, messages: said.map(message) };
    const given = [];
    let broken = null;
    try {
      for (const hook of this.promptHooks) given.push(...(await this.plugin.run(hook, event, { sessionKey: name, sessionId: name })));
    } catch (error) {
      broken = "hook_error";
      this.world.log("error", error?.stack ?? error);
    }
    const lines = this.world.taken();
    const texts = [...new Set(given.map((one) => one.prependContext).filter(Boolean))];
    return this.#recalled(texts.join("\n\n"), lines, broken ?? (this.world.failed > failed ? "embedder_failed" : warned(lines)));
  }

  #recalled(context, lines, broken) {
    const { marker, ids, skipped, fts, vec } = this.receipt;
    const line = lines.findLast(([, one]) => one.includes(marker))?.[1];
    const receiptText = line?.slice(line.indexOf(marker) + marker.length);
    const receipt = parsed(receiptText);
    const listed = (receipt?.[ids] ?? []).map(String);
    const lanes = { fts: idsOf(receipt?.[fts]), vec: idsOf(receipt?.[vec]) };
    if (receipt) for (const lane of ["fts", "vec"]) this.#lanes[lane] = (this.#lanes[lane] ?? 0) + (lanes[lane].length > 0);
    const named = context ? [...new Set(this.store.book.named(context, listed).map((id) => this.store.main(id)))] : [];
    const rest = listed.filter((id) => !named.includes(id) && this.store.book.get(id));
    const rank = (lane, id) => (lanes[lane].includes(id) ? { [`${lane}_rank`]: lanes[lane].indexOf(id) + 1 } : {});
    const items = [...named, ...rest].map((id) => ({ id, text: this.store.book.get(id).text, ...rank("fts", id), ...rank("vec", id) }));
    // A plugin without receipts that injects nothing has chosen to; one that writes receipts says so in them.
    const silent = !context && (receipt ? receipt[skipped] === true : true);
    return {
      status: broken ? "degraded" : silent ? "skipped" : "ok",
      items, injected: named.length, context,
      ...(receipt ? { receipt, receipt_text: receiptText } : {}),
      ...(broken ? { reason: broken } : {}),
      log: lines.filter(([, one]) => one !== line).map(([level, one]) => `${level} ${one}`),
    };
  }

  // `stored`: whether to tell what is new in the store, for which all of it is read.
  async observe({ now_ms, turn, stored = true }) {
    this.world.now = now_ms;
    const said = this.#said(turn.session);
    if (!["user", "assistant"].includes(turn.role)) return {};
    said.push(turn);
    // A turn ends with its first answer, or at once where nobody answers. A prompt without one was a failed run.
    const ended = turn.role === "user" ? !this.replies : this.#open.delete(turn.session);
    if (turn.role === "user" && this.replies) this.#open.add(turn.session);
    if (!this.captures || !ended) return {};
    this.world.taken();
    await this.#end(said);
    const settled = await this.#settled();
    const changes = stored && await this.store.changes((text) => sourcesOf(text, said));
    const log = this.world.taken().map(([level, one]) => `${level} ${one}`);
    return { ...changes, log: settled ? log : [...log, "warn lab: the plugin did not settle"] };
  }

  // The turns of a session so far.
  #said(session) {
    if (!this.#history.has(session)) this.#history.set(session, []);
    return this.#history.get(session);
  }

  async #end(said) {
    const session = `agent:main:${said[0].session}`;
    const from = this.settings.messages === "turn" ? said.findLastIndex((turn) => turn.role === "user") : 0;
    const event = { success: true, messages: said.slice(from).map(message), durationMs: 0 };
    try {
      await this.plugin.run(CAPTURE_HOOK, event, { sessionKey: session, sessionId: session });
    } catch (error) {
      this.world.log("error", error?.stack ?? error);
    }
  }

  async prove() {
    const { world, plugin } = this;
    return {
      hooks: plugin.fired, tools: plugin.called, stored: await this.store.count(),
      embedded: world.embedded, embedder: this.embedder, lanes: this.#lanes, model_calls: world.modelCalls,
    };
  }

  // Call one of the plugin's tools; the lab does not, but people who look into a plugin do. `whole`: with text and log.
  async tool({ now_ms, name, params, whole = false }) {
    this.world.now = now_ms;
    if (!this.plugin.tools.has(name)) throw new Refused("unsupported", `no such tool: ${name}`);
    this.world.taken();
    const details = await this.plugin.call(name, params);
    return whole ? { details, text: this.plugin.said, log: this.world.taken() } : details;
  }

  async close() {
    await this.plugin?.stop();
    return {};
  }

  #settled() {
    const { quiet_ms = 25, most_ms = 20_000 } = this.settings.settle ?? {};
    return quiet_ms ? this.world.settle({ quiet: quiet_ms, most: most_ms }) : true;
  }
}

function message({ role, text }) {
  return { role, content: role === "user" ? text : [{ type: "text", text }] };
}

// Replace {names} in the texts of a configuration; a text that is one name becomes the value itself.
function filled(value, values) {
  if (Array.isArray(value)) return value.map((one) => filled(one, values));
  if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one, values)]));
  if (typeof value !== "string") return value;
  const whole = /^\{([\w.]+)\}$/.exec(value)?.[1];
  if (whole in values) return values[whole];
  return value.replace(/\{([\w.]+)\}/g, (text, name) => (name in values ? String(values[name]) : text));
}

function get(config, place) {
  return place.split(".").reduce((part, name) => part?.[name], config);
}

function set(config, place, value) {
  const names = place.split(".");
  const last = names.pop();
  let part = config;
  for (const name of names) part = part[name] ??= {};
  part[last] = value;
}

// The reason for a warning, as one word.
function warned(lines) {
  return lines.some(([level]) => level === "warn" || level === "error") ? "plugin_warned" : null;
}

function parsed(text) {
  try {
    const value = text === undefined ? null : JSON.parse(text);
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function idsOf(hits) {
  return Array.isArray(hits) ? hits.map((hit) => String(hit?.id ?? hit)) : [];
}

// The last turn that has the words of a captured text, else the prompt and its answer: a model may have written it.
function sourcesOf(text, turns) {
  const folded = (one) => one.toLowerCase().replace(/\s+/g, " ").trim();
  const said = turns.findLast((turn) => folded(turn.text).includes(folded(text)));
  const from = turns.findLastIndex((turn) => turn.role === "user");
  return (said ? [said] : turns.slice(from)).map((turn) => turn.key);
}

const host = new Host();
const reply = (value) => (host.world ? host.world.say(value) : process.stdout.write(`${JSON.stringify(value)}\n`));
for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (!line.trim()) continue;
  const { id, op, ...request } = JSON.parse(line);
  try {
    if (!["hello", "remember", "forget", "recall", "observe", "prove", "tool", "close"].includes(op)) throw new Refused("unsupported", `unknown operation ${op}`);
    if (op !== "hello" && !host.plugin && op !== "close") throw new Refused("no_hello", "hello comes first");
    reply({ id, ok: true, result: await host[op](request) });
  } catch (error) {
    process.stderr.write(`${op}: ${error?.stack ?? error}\n`);
    reply({ id, ok: false, error: { kind: error.kind ?? "plugin_error", message: String(error?.message ?? error).slice(0, 300) } });
  }
  if (op === "close") break;
}
process.exit(0);
