// A memory plugin as people write them: TypeScript that names JavaScript, a type of the host, tools, hooks, a service.
import { definePluginEntry, neverCalled, type OpenClawPluginApi } from "openclaw/plugin-sdk/plugin-entry";
import { shown } from "./shown.js";
import crypto from "node:crypto";

const rows: { id: string; text: string; at: number; category: string }[] = [];
class Prompt {
  constructor(private readonly text: string) {}
  // The first word of a row, or three long ones.
  asks(row: string) {
    const words = row.split(/\W+/);
    return this.text.includes(words[0]) || words.filter((word) => word.length > 4 && this.text.includes(word)).length > 2;
  }
}

export default definePluginEntry({
  id: "pebble",
  register(api: OpenClawPluginApi) {
    console.log("printed");
    process.stdout.write("printed as well\n");
    api.registerCommand?.({ name: "pebbles" });
    api.registerService({ id: "pebble", start: ({ stateDir }) => api.logger.info(`state ${stateDir.startsWith(process.env.HOME!)}`) });
    const keep = (text: string, category = "fact") => {
      const id = crypto.randomUUID();
      rows.push({ id, text, at: Date.now(), category });
      return id;
    };
    const category = { type: "string", enum: ["fact", "other"] };
    api.registerTool({
      name: "memory_store",
      parameters: { type: "object", properties: { text: { type: "string" }, category } },
      execute: async (_: string, { text, importance, category }: any) =>
        ({ details: importance === 0.3 ? { action: "ignored" } : { id: keep(text, category) } }),
    });
    api.registerTool({ name: "memory_list", execute: async () => ({ details: { memories: rows } }) });
    api.registerTool({ name: "memory_forget", execute: async (_: string, { memoryId }: any) => {
      rows.splice(rows.findIndex((row) => row.id === memoryId), 1);
      return { details: {} };
    } });
    api.registerTool({ name: "world", execute: async (_: string, { what }: any) => ({ details: await world(what) }) });
    api.on("before_agent_start", async (event: any, ctx: any) => {
      if (event.prompt === "throw") throw new Error("no");
      if (event.prompt === "warn") api.logger.warn("half of it failed");
      if (event.prompt === "where") return { prependContext: `${ctx.sessionKey} ${event.messages.length}` };
      if (event.prompt.startsWith("echo")) return { prependContext: `said ${event.prompt}` };
      const asked = rows.filter((row) => new Prompt(event.prompt).asks(row.text));
      const found = asked.slice(0, api.pluginConfig.most ?? asked.length);
      if (api.pluginConfig.receipts) {
        const receipt = { fusedTop: asked.map((row) => row.id), ftsTop: asked.map((row) => ({ id: row.id })), skipped: !asked.length };
        api.logger.info(`pebble:autoRecall.receipt ${JSON.stringify(receipt)}`);
      }
      if (found.length) return { prependContext: found.map((row, n) => `${n + 1}. [fact] ${shown(row.text)}`).join("\n") };
    });
    if (api.pluginConfig.both) {
      api.on("before_prompt_build", () => ({ prependContext: "last" }));
      api.on("before_prompt_build", async () => ({ prependContext: "first" }), { priority: 5 });
    }
    api.on("agent_end", (event: any) => {
      if (!event.success) return;
      const [said] = event.messages.filter((one: any) => one.role === "user");
      // It answers at once and stores later.
      fetch(`${api.pluginConfig.url}/embeddings`, { method: "POST", body: JSON.stringify({ input: said.content }) })
        .then((response) => response.json()).then(() => setTimeout(() => { stands(said.content); setTimeout(() => keep(said.content), 5); }, 8));
    });
  },
});

// Keep the whole process from going on, as a busy machine does.
function stands(text: string) {
  for (const until = performance.now() + 100; text.startsWith("stall") && performance.now() < until; );
}

async function world(what: string) {
  if (what === "time") return { now: Date.now(), made: new Date().toISOString(), given: new Date(5).getTime(), is: new Date() instanceof Date };
  if (what === "chance") return { ids: [crypto.randomUUID(), globalThis.crypto.randomUUID()], number: Math.random() };
  if (what === "env") return { home: process.env.HOME, cwd: process.cwd(), telemetry: process.env.MEM0_TELEMETRY };
  try {
    if (what === "fetch") await fetch("http://192.0.2.1/");
    if (what === "port") await fetch("http://127.0.0.1:1/");
    if (what === "http") await new Promise((ok, no) => import("node:http").then(({ get }) => get("http://192.0.2.1/", ok).on("error", no)));
    if (what === "socket") await new Promise((ok, no) => import("node:net").then(({ connect }) => connect(80, "192.0.2.1", ok).on("error", no)));
    if (what === "program") (await import("node:child_process")).execSync("true");
    if (what === "stub") neverCalled();
    if (what === "background") { Promise.reject(new Error("nobody waits")); await new Promise((ok) => setTimeout(ok, 20)); }
  } catch (error) { return { error: String((error as Error).message) }; }
  return { error: null };
}
