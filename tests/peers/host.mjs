// Runs the public plugin outside OpenClaw for tests/peers: one JSON request a line on stdin, one answer a line on stdout.
//
//     node --experimental-transform-types host.mjs PLUGIN_FOLDER CONFIG.json STATE_FOLDER ENDPOINT
//
// {"op": "store", "rows": [...], "at": MS}    add rows through the plugin's own import, embedded by the endpoint
// {"op": "append", "rows": [...]}             add rows to its table as they are, a missing vector as zeros
// {"op": "remember", "params": {...}, "at": MS}   call memory_store
// {"op": "turn", "prompt": TEXT, "at": MS, "session": KEY}   run before_prompt_build
//
// The clock stands where a request puts it, and embeddings come from ENDPOINT in place of the provider.
import { createRequire, registerHooks } from "node:module";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const [plugin, settingsFile, state, endpoint] = process.argv.slice(2);
const entry = path.join(path.resolve(plugin), "index.ts");
const settings = JSON.parse(fs.readFileSync(settingsFile, "utf8"));
process.env.OPENCLAW_STATE_DIR = path.resolve(state);

const PROVIDER = "https://api.openai.com";
const fetchForReal = globalThis.fetch;
globalThis.fetch = (url, options) => {
  if (!String(url).startsWith(PROVIDER)) throw new Error(`nothing but ${PROVIDER} may be called: ${url}`);
  return fetchForReal(endpoint + String(url).slice(PROVIDER.length), options);
};

let now = 0;
Date.now = () => now;

// What the plugin imports of OpenClaw are types and helpers that this host does not need.
const nothing = "data:text/javascript,export default {};";
registerHooks({
  resolve: (name, context, next) =>
    name.startsWith("openclaw/") ? { url: nothing, shortCircuit: true } : next(name, context),
});

let lines = [];
const log = (level) => (...words) => void lines.push([level, words.join(" ")]);
const logger = { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
Object.assign(console, logger, { log: log("info") });

const hooks = {};
const tools = {};
const services = [];
const api = {
  id: "openclaw-mem-engine",
  name: "openclaw-mem-engine",
  source: entry,
  config: {},
  pluginConfig: settings,
  runtime: {},
  logger,
  resolvePath: (given) => path.resolve(state, given),
  on: (event, handler) => void (hooks[event] ??= []).push(handler),
  registerTool: (tool, options) => {
    const made = typeof tool === "function" ? tool({ agentId: "main", sessionKey: "main", config: {} }) : tool;
    for (const one of [made].flat()) tools[one.name ?? options.name] = one;
  },
  registerService: (service) => void services.push(service),
};
const unused = { get: (have, name) => (name in have ? have[name] : /^register/.test(String(name)) ? () => {} : undefined) };

const { default: loaded } = await import(pathToFileURL(entry).href);
await loaded.register(new Proxy(api, unused));
for (const service of services) await service.start?.({ config: {}, stateDir: state, logger });

const table = async () => {
  const lancedb = await createRequire(entry)("@lancedb/lancedb");
  return (await lancedb.connect(settings.dbPath)).openTable("memories");
};

const operations = {
  async store({ rows, at }) {
    now = at;
    const file = path.join(state, "rows.json");
    fs.writeFileSync(file, JSON.stringify(rows));
    const { details } = await tools.memory_import.execute("rows", { inPath: file, format: "json", dedupe: "none" });
    return details;
  },
  async append({ rows }) {
    const held = await table();
    const width = (await held.schema()).fields.find((one) => one.name === "vector").type.listSize;
    await held.add(rows.map((one) => ({ ...one, vector: one.vector ?? new Array(width).fill(0) })));
    return { imported: rows.length };
  },
  async remember({ params, at }) {
    now = at;
    return (await tools.memory_store.execute("row", params)).details;
  },
  async turn({ prompt, at, session }) {
    now = at;
    const [run] = hooks.before_prompt_build;
    const given = await run({ prompt, messages: [] }, { agentId: "main", sessionKey: session, sessionId: session });
    return given?.prependContext ?? null;
  },
};

lines = [];
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { op, ...request } = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await operations[op](request)) ?? null };
  } catch (error) {
    answer = { error: String(error?.stack ?? error) };
  }
  process.stdout.write(JSON.stringify({ ...answer, log: lines }) + "\n");
  lines = [];
}
process.exit(0);
