// What a plugin sees of the world: the lab's clock, ids and random numbers, its own home, the lab's embedder, and nothing
// else (EX-28 to EX-31). This is no sandbox: native code and worker threads are not covered.
import { createHash } from "node:crypto";
import diagnostics from "node:diagnostics_channel";
import fs from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import path from "node:path";

const require = createRequire(import.meta.url);
const RealDate = Date;
const PROVIDER = "https://api.openai.com/v1/";
const LOOPBACK = new Set(["127.0.0.1", "localhost", "::1", "[::1]"]);
// Longest line of a log that is kept, and the number of lines of one request.
const LONGEST = 4000;
const MOST_LINES = 200;

export class World {
  now = 0;
  embedded = 0;
  failed = 0;
  modelCalls = 0;
  blocked = 0;
  unhandled = 0;
  busy = 0;
  #lines = [];
  #allowed = new Set();
  #embedder = null;
  #model = null;
  #activity = 0;

  // `embedder` and `model` are base URLs that end in /v1, or null; `processes`: the plugin may start programs.
  constructor({ home, seed, embedder = null, model = null, processes = false }) {
    this.home = home;
    this.#embedder = embedder;
    this.#model = model;
    for (const url of [embedder, model]) if (url) this.#allowed.add(origin(new URL(url)));
    this.#settleDown(home);
    this.#clock();
    this.#chance(seed);
    this.#network();
    if (!processes) this.#noPrograms();
    this.#output();
    for (const event of ["unhandledRejection", "uncaughtException"])
      process.on(event, (error) => {
        this.unhandled += 1;
        this.log("error", `${event}: ${error?.stack ?? error}`);
      });
  }

  log(level, ...words) {
    this.#activity += 1;
    if (this.#lines.length < MOST_LINES) this.#lines.push([level, words.map(String).join(" ").slice(0, LONGEST)]);
  }

  // The lines since the last call.
  taken() {
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }

  // Wait until no request has been under way, and nothing has been logged, for `quiet` milliseconds; at most `most`.
  // Some plugins answer before they have stored (EX-37).
  async settle({ quiet, most }) {
    const began = performance.now();
    const step = Math.min(5, quiet);
    let seen = this.#activity;
    // In steps: where this process stood still for long, what the plugin was about to do has not been done.
    let calm = 0;
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, step));
      calm = this.busy || this.#activity !== seen ? 0 : calm + step;
      seen = this.#activity;
      if (calm >= quiet) return true;
      if (performance.now() - began >= most) return false;
    }
  }

  #settleDown(home) {
    fs.mkdirSync(path.join(home, "state"), { recursive: true });
    process.chdir(home);
    Object.assign(process.env, {
      HOME: home,
      USERPROFILE: home,
      XDG_CONFIG_HOME: path.join(home, "config"),
      XDG_CACHE_HOME: path.join(home, "cache"),
      XDG_DATA_HOME: path.join(home, "data"),
      OPENCLAW_STATE_DIR: path.join(home, "state"),
      DO_NOT_TRACK: "1",
      MEM0_TELEMETRY: "false",
      MEM0_TELEMETRY_SAMPLE_RATE: "0",
    });
  }

  // Time stands still while a request is answered, so that equal requests give equal times.
  #clock() {
    const world = this;
    globalThis.Date = new Proxy(RealDate, {
      construct: (target, given, made) => Reflect.construct(target, given.length ? given : [world.now], made),
      apply: () => new RealDate(world.now).toString(),
      get: (target, name) => (name === "now" ? () => world.now : Reflect.get(target, name)),
    });
  }

  #chance(seed) {
    let count = 0;
    const uuid = () => uuidOf(`${seed} ${count++}`, 4);
    require("node:crypto").randomUUID = uuid;
    Object.defineProperty(globalThis.crypto, "randomUUID", { value: uuid, configurable: true });
    let state = createHash("sha256").update(`${seed}`).digest().readUInt32LE(0);
    Math.random = () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
    syncBuiltinESMExports();
  }

  #network() {
    const world = this;
    const fetch = globalThis.fetch;
    globalThis.fetch = async (input, options) => {
      const url = world.#routed(new URL(input instanceof Request ? input.url : String(input)));
      if (!world.#allowed.has(origin(url))) {
        world.blocked += 1;
        throw new TypeError(`fetch failed: the lab lets this plugin reach its own endpoints only, not ${url.host}`);
      }
      return world.#counted(url, () => fetch(input instanceof Request ? new Request(url, input) : url, options));
    };
    const { Socket } = require("node:net");
    const connect = Socket.prototype.connect;
    Socket.prototype.connect = function (...given) {
      const { host, port, path: pipe } = target(given);
      if (pipe || !world.#allowed.has(origin({ hostname: host, port }))) {
        world.blocked += 1;
        const error = Object.assign(new Error(`the lab allows no connection to ${pipe ?? `${host}:${port}`}`), { code: "EACCES" });
        process.nextTick(() => this.destroy(error));
        return this;
      }
      return connect.apply(this, given);
    };
    // Libraries that bring their own client use node:http.
    const busy = new Set();
    diagnostics.subscribe("http.client.request.start", ({ request }) => {
      busy.add(request);
      this.#begun();
    });
    const over = (request, status) => {
      if (!busy.delete(request)) return;
      this.#count(`http://${request.getHeader("host")}${request.path}`, status);
      this.#over();
    };
    diagnostics.subscribe("http.client.response.finish", ({ request, response }) => over(request, response.statusCode));
    diagnostics.subscribe("http.client.request.error", ({ request }) => over(request, 0));
  }

  #begun() {
    this.busy += 1;
    this.#activity += 1;
  }

  #over() {
    this.busy -= 1;
    this.#activity += 1;
  }

  // The provider's own address, which some plugins have in their code, is the lab's embedder or model.
  #routed(url) {
    if (!url.href.startsWith(PROVIDER)) return url;
    const rest = url.href.slice(PROVIDER.length);
    const base = rest.startsWith("embeddings") ? this.#embedder : this.#model;
    return base ? new URL(`${base}/${rest}`) : url;
  }

  // `status` 0: there was no answer.
  #count(url, status) {
    if (this.#embedder !== null && url.startsWith(this.#embedder)) {
      if (status >= 200 && status < 300) this.embedded += 1;
      else this.failed += 1;
    } else if (this.#model !== null && url.startsWith(this.#model)) {
      this.modelCalls += 1;
    }
  }

  async #counted(url, send) {
    this.#begun();
    try {
      const response = await send();
      this.#count(url.href, response.status);
      // A request is under way until its last byte is here, which is after its status.
      const over = () => this.#over();
      response.clone().arrayBuffer().then(over, over);
      return response;
    } catch (error) {
      this.#count(url.href, 0);
      this.#over();
      throw error;
    }
  }

  #noPrograms() {
    const children = require("node:child_process");
    for (const name of ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"])
      children[name] = () => {
        this.blocked += 1;
        throw Object.assign(new Error(`the lab lets this plugin start no program (${name})`), { code: "EACCES" });
      };
    syncBuiltinESMExports();
  }

  // Standard output belongs to the protocol; what a plugin prints is a line of its log.
  #output() {
    const write = process.stdout.write.bind(process.stdout);
    this.say = (value) => write(`${JSON.stringify(value)}\n`);
    process.stdout.write = (text, ...rest) => {
      this.log("info", text);
      rest.find((one) => typeof one === "function")?.();
      return true;
    };
    for (const level of ["debug", "info", "warn", "error", "log", "trace"])
      console[level] = (...words) => this.log(level === "log" || level === "trace" ? "info" : level, ...words);
  }
}

// A UUID of a text, in the form of `version`.
export function uuidOf(text, version) {
  return formed(createHash("sha1").update(text).digest(), version);
}

// The id that the lab's engine gives to a memory's key: the key itself if it is a UUID, else its UUIDv5 (E-1).
export function engineId(key) {
  if (/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(key)) return key;
  const namespace = Buffer.from("6f1b6a5e9f0b5a398f393a1c7f7c2d10", "hex");
  return formed(createHash("sha1").update(namespace).update(key, "utf8").digest(), 5);
}

function formed(digest, version) {
  digest[6] = (digest[6] & 0x0f) | (version << 4);
  digest[8] = (digest[8] & 0x3f) | 0x80;
  const hex = digest.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}

// All names of loopback are one host.
function origin({ hostname, port, protocol }) {
  const host = LOOPBACK.has(hostname) ? "loopback" : hostname;
  return `${host}:${port || (protocol === "https:" ? 443 : 80)}`;
}

function target(given) {
  const first = Array.isArray(given[0]) ? given[0][0] : given[0];
  if (typeof first === "object" && first !== null) return { host: first.host ?? "localhost", port: first.port, path: first.path };
  if (typeof first === "string" && !/^\d+$/.test(first)) return { path: first };
  return { host: typeof given[1] === "string" ? given[1] : "localhost", port: first };
}
