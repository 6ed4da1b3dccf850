// Where the time of a live recall goes. Node loads this before the host, and it writes the medians to standard error:
//
//     NODE_OPTIONS="--import $PWD/tests/peers/parts.mjs" lab replay … --arm live=live.json
//     lab cache answers --stderr live
//
// live.json needs "env": ["NODE_OPTIONS"] beside "plugin". Times are in milliseconds. `host` is from the parsed request to
// the written answer, `embedding` is spent in requests, `search` in queries of LanceDB.
import { writeSync } from "node:fs";
import { registerHooks } from "node:module";

const recalls = [];
let open = null;

// Calls that overlap count once.
const spent = (name, work) => {
  let under = 0;
  let from = 0;
  return async function (...given) {
    if (under++ === 0) from = performance.now();
    try {
      return await work.apply(this, given);
    } finally {
      if (--under === 0 && open) open[name] += performance.now() - from;
    }
  };
};
globalThis.fetch = spent("embedding", globalThis.fetch);

const parse = JSON.parse;
JSON.parse = (text, ...more) => {
  const value = parse(text, ...more);
  if (value?.op === "recall") open = { host: -performance.now(), embedding: 0, search: 0, id: value.id };
  return value;
};
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (text, ...more) => {
  if (open && String(text).startsWith(`{"id":${open.id},`)) {
    open.host += performance.now();
    recalls.push(open);
    open = null;
  }
  return write(text, ...more);
};
// Queries are ended by toArray, on the class that all kinds of query extend.
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!/@lancedb\/lancedb\/dist\/query\.js$/.test(url)) return loaded;
    const timed = `${loaded.source}\n;exports.QueryBase.prototype.toArray = globalThis.timedSearch(exports.QueryBase.prototype.toArray);`;
    return { ...loaded, source: timed };
  },
});
globalThis.timedSearch = (work) => spent("search", work);

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
process.on("exit", () => {
  if (!recalls.length) return;
  const parts = ["host", "embedding", "search"].map((name) => `${name} ${median(recalls.map((one) => one[name])).toFixed(2)}`);
  writeSync(2, `${recalls.length} recalls, p50 in ms: ${parts.join(", ")}\n`);
});
