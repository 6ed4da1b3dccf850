// A memory plugin as people write them: TypeScript that names JavaScript, a type of the host, tools, hooks, a service.
import { definePluginEntry, neverCalled, type OpenClawPluginApi } from "openclaw/plugin-sdk/plugin-entry";
import { shown } from "./shown.js";
import crypto from "node:crypto";

const rows: { id: string; text: string; at: number }[] = [];
class Words { constructor(private readonly text: string) {} has(word: string) { return this.text.includes(word); } }

export default definePluginEntry({
  id: "pebble",
  register(api: OpenClawPluginApi) {
    console.log("printed");
    process.stdout.write("printed as well\n");
    api.registerCommand?.({ name: "pebbles" });
    api.registerService({ id: "pebble", start: ({ stateDir }) => api.logger.info(`state ${stateDir.startsWith(process.env.HOME!)}`) });
    const keep = (text: string) => { const id = crypto.randomUUID(); rows.push({ id, text, at: Date.now() }); return id; };
    api.registerTool({ name: "memory_store", execute: async (_: string, { text, importance }: any) =>
      ({ details: importance === 0.3 ? { action: "ignored" } : { id: keep(text) } }) });
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
      const found = rows.filter((row) => new Words(event.prompt).has(row.text.split(" ")[0]));
      if (found.length) return { prependContext: found.map((row, n) => `${n + 1}. [fact] ${shown(row.text)}`).join("\n") };
    });
    api.on("agent_end", (event: any) => {
      if (!event.success) return;
      const [said] = event.messages.filter((one: any) => one.role === "user");
      // It answers at once and stores later.
      fetch(`${api.pluginConfig.url}/embeddings`, { method: "POST", body: JSON.stringify({ input: said.content }) })
        .then((response) => response.json()).then(() => setTimeout(() => keep(said.content), 10));
    });
  },
});

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
