// Load an OpenClaw plugin as it is, with the part of the host's API that a memory plugin uses (EX-27, EX-32).
import { createHash } from "node:crypto";
import fs from "node:fs";
import { createRequire, registerHooks, stripTypeScriptTypes } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const MANIFEST = "openclaw.plugin.json";
const ENTRIES = ["index.ts", "index.js", "index.mjs", "dist/index.js"];
const NAMED = /import\s+(type\s)?[^"';]*?\{([^}]*)\}\s*from\s*["'](openclaw\/[^"']+)["']/g;
const KNOWN = {
  definePluginEntry: "(entry) => entry",
  emptyPluginConfigSchema: "() => ({})",
};
// Node's own SQLite in place of the native module, as far as plugins use it.
const SQLITE = `
import { DatabaseSync } from "node:sqlite";
export default class Database extends DatabaseSync {
  pragma(text) { return this.prepare("PRAGMA " + text).all(); }
  transaction(work) {
    return (...given) => {
      this.exec("BEGIN");
      try { const result = work(...given); this.exec("COMMIT"); return result; }
      catch (error) { this.exec("ROLLBACK"); throw error; }
    };
  }
}`;
const STAND_INS = { "better-sqlite3": { "node:sqlite": SQLITE } };

export class Plugin {
  hooks = new Map();
  tools = new Map();
  services = [];
  fired = {};
  called = {};
  ignored = new Set();
  sources = {};

  // `folder` holds the plugin with its packages; `config` is its own; `openclaw` a folder of OpenClaw, or null.
  constructor({ folder, config, world, session, openclaw = null, standIns = {} }) {
    this.folder = fs.realpathSync(folder);
    this.config = config;
    this.world = world;
    this.session = session;
    const manifest = this.#json(MANIFEST);
    const about = this.#json("package.json");
    const found = about.openclaw?.extensions?.[0] ?? ENTRIES.find((name) => fs.existsSync(path.join(this.folder, name)));
    if (!found) throw new Error(`no plugin there: neither package.json names an entry, nor is there ${ENTRIES.join(", ")}`);
    this.entry = path.join(this.folder, found);
    this.id = manifest.id ?? about.name;
    this.version = about.version ?? manifest.version ?? "0";
    this.packages = this.#packages(about);
    this.#resolve(openclaw, standIns);
  }

  async register() {
    const loaded = await import(pathToFileURL(this.entry).href);
    const plugin = loaded.default?.default ?? loaded.default ?? loaded;
    this.id ??= plugin.id ?? "plugin";
    const register = plugin.register ?? plugin.activate ?? plugin;
    if (typeof register !== "function") throw new Error("the plugin exports no register()");
    await register.call(plugin, this.#api(plugin));
    for (const service of this.services) await service.start?.(this.#service());
  }

  async stop() {
    for (const service of this.services) await service.stop?.(this.#service());
  }

  // Run a hook's handlers, those of higher priority first, and return what they gave.
  async run(name, event, context) {
    const handlers = [...(this.hooks.get(name) ?? [])].sort((one, other) => other.priority - one.priority);
    const given = [];
    for (const { handler } of handlers) {
      this.fired[name] = (this.fired[name] ?? 0) + 1;
      given.push(await handler(event, { ...this.#session(), ...context }));
    }
    return given.filter((one) => one !== undefined && one !== null);
  }

  // Call a tool and return its `details`, which are its result for programs; `said` is what it tells the agent.
  async call(name, params) {
    this.called[name] = (this.called[name] ?? 0) + 1;
    const result = await this.tools.get(name).execute(`lab-${this.called[name]}`, params);
    this.said = (result?.content ?? []).map((part) => part.text ?? "").join("\n");
    return result?.details ?? {};
  }

  // Import a package that the plugin depends on.
  async package(name) {
    return import(pathToFileURL(createRequire(this.entry).resolve(name)).href);
  }

  #session() {
    return {
      agentId: "main", sessionKey: this.session, sessionId: this.session, trigger: "user", workspaceDir: this.world.home,
      hookInvocation: { assertActive() {} },
      toolAuthority: { allows: () => true, assertActive() {}, fingerprint: "lab" },
    };
  }

  #host() {
    const entries = { [this.id]: { enabled: true, config: this.config } };
    return { plugins: { slots: { memory: this.id }, entries }, agents: { defaults: { workspace: this.world.home } } };
  }

  #service() {
    return { config: this.#host(), workspaceDir: this.world.home, stateDir: this.#state(), logger: this.#logger() };
  }

  #state() {
    return path.join(this.world.home, "state");
  }

  #logger() {
    const levels = ["debug", "info", "warn", "error"];
    return Object.fromEntries(levels.map((level) => [level, (...words) => this.world.log(level, ...words)]));
  }

  #api(plugin) {
    const config = this.#host();
    const state = this.#state();
    const api = {
      id: this.id, name: plugin.name ?? this.id, version: this.version, source: this.entry, rootDir: this.folder,
      registrationMode: "full", config, pluginConfig: this.config, logger: this.#logger(),
      resolvePath: (given) => path.resolve(this.world.home, given.replace(/^~(?=$|\/)/, this.world.home)),
      on: (name, handler, options) => {
        this.hooks.set(name, [...(this.hooks.get(name) ?? []), { handler, priority: options?.priority ?? 0 }]);
      },
      registerHook: (names, handler, options) => [names].flat().forEach((name) => api.on(name, handler, options)),
      registerTool: (tool, options) => {
        const made = typeof tool === "function" ? tool({ ...this.#session(), config }) : tool;
        for (const one of [made].flat()) if (one) this.tools.set(one.name ?? options?.name, one);
      },
      registerService: (service) => this.services.push(service),
      runtime: {
        state: { resolveStateDir: () => state },
        config: { current: () => config, loadConfig: () => config },
      },
    };
    // What else a plugin registers (commands, channels, a command line) has no use here and is noted by name.
    return new Proxy(api, {
      get: (have, name) => {
        if (name in have || typeof name !== "string" || !/^(register|emit|enqueue)/.test(name)) return have[name];
        return () => void this.ignored.add(name);
      },
    });
  }

  #json(name) {
    const file = path.join(this.folder, name);
    if (!fs.existsSync(file)) return {};
    this.#source(file);
    return JSON.parse(fs.readFileSync(file, "utf8"));
  }

  #source(file) {
    this.sources[path.relative(this.folder, file)] = createHash("sha256").update(fs.readFileSync(file)).digest("hex");
  }

  // The versions of the packages that the plugin declares.
  #packages(about) {
    const versions = {};
    for (const name of Object.keys(about.dependencies ?? {}).sort()) {
      for (let folder = this.folder; ; folder = path.dirname(folder)) {
        const file = path.join(folder, "node_modules", name, "package.json");
        if (fs.existsSync(file)) versions[name] = JSON.parse(fs.readFileSync(file, "utf8")).version;
        if (versions[name] || folder === path.dirname(folder)) break;
      }
    }
    return versions;
  }

  #resolve(openclaw, standIns) {
    const wanted = new Map();
    const own = (file) => file.startsWith(this.folder + path.sep) && !path.relative(this.folder, file).includes("node_modules");
    registerHooks({
      resolve: (name, context, next) => {
        const stand = STAND_INS[name]?.[standIns[name]];
        if (stand) return { url: `data:text/javascript,${encodeURIComponent(stand)}`, shortCircuit: true };
        if (name.startsWith("openclaw/")) {
          if (!openclaw) return { url: `openclaw-stub:${name}`, shortCircuit: true };
          return next(name, { ...context, parentURL: pathToFileURL(path.join(openclaw, "x.mjs")).href });
        }
        try {
          return next(name, context);
        } catch (error) {
          // TypeScript names its own files as the JavaScript that they would become.
          if (!/^\.\.?\/.*\.js$/.test(name)) throw error;
          return next(name.replace(/\.js$/, ".ts"), context);
        }
      },
      load: (url, context, next) => {
        if (url.startsWith("openclaw-stub:")) {
          return { format: "module", source: stub(wanted.get(url.slice("openclaw-stub:".length)) ?? []), shortCircuit: true };
        }
        if (!url.startsWith("file:")) return next(url, context);
        const file = fileURLToPath(url);
        if (!/\.[cm]?[jt]s$/.test(file) || !own(file)) return next(url, context);
        this.#source(file);
        const text = fs.readFileSync(file, "utf8");
        for (const [, isType, names, module] of text.matchAll(NAMED)) {
          if (isType) continue;
          const plain = names.split(",").map((one) => one.trim()).filter((one) => one && !one.startsWith("type "));
          wanted.set(module, [...(wanted.get(module) ?? []), ...plain.map((one) => one.split(/\s+as\s+/)[0])]);
        }
        if (!/\.[cm]?ts$/.test(file)) return next(url, context);
        return { format: "module", source: withoutTypes(text), shortCircuit: true };
      },
    });
  }
}

// Enums and the like need a transformation, which Node 26 no longer has.
function withoutTypes(text) {
  try {
    return stripTypeScriptTypes(text, { mode: "transform" });
  } catch (error) {
    if (error?.code !== "ERR_INVALID_ARG_VALUE") throw error;
    return stripTypeScriptTypes(text);
  }
}

// A module of OpenClaw without OpenClaw: what a plugin imports from it exists, and fails where it is called.
function stub(names) {
  const lines = [...new Set(names)].map((name) => {
    const body = KNOWN[name] ?? `() => { throw new Error("the lab's host has no ${name}"); }`;
    return `export const ${name} = ${body};`;
  });
  return [...lines, "export default {};"].join("\n");
}
