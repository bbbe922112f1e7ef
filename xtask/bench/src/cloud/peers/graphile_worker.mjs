// What `cargo xtask bench cloud` asks of graphile-worker: `node graphile_worker.mjs URL submit SECONDS | finish SECONDS | idle COUNT`
// prints one line of JSON. The task does nothing.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { setTimeout as sleep } from "node:timers/promises";

const PRODUCERS = 64;
const TASK = "bench";
const [url, what, amount] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const pool = new pg.Pool({ connectionString: url, max: 16 });
// The library asks for both: a connection that fails is told by the query that it fails.
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

async function submit(seconds) {
  const deadline = performance.now() + seconds * 1000;
  let count = 0;
  const produce = async () => {
    while (performance.now() < deadline) {
      count += 1;
      await utils.addJob(TASK, { number: count });
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, produce));
  return count;
}

let ended = 0;
let startedAt = 0;
let tell = () => {};
const work = () =>
  run({
    pgPool: pool,
    logger,
    concurrency: 24,
    noHandleSignals: true,
    pollInterval: 1000,
    // Its queue in memory and its batched completions, as its page on performance recommends.
    preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList: {
      [TASK]: async () => {
        startedAt = performance.now();
        ended += 1;
        tell();
      },
    },
  });
const waitFor = async (count) => {
  while (ended < count) await new Promise((resolve) => { tell = resolve; });
};

let answer;
let runner;
const began = performance.now();
if (what === "submit") {
  const count = await submit(amount);
  answer = { rate: count / ((performance.now() - began) / 1000) };
} else if (what === "finish") {
  runner = await work();
  const count = await submit(amount);
  await waitFor(count);
  answer = { rate: count / ((performance.now() - began) / 1000), count };
} else {
  runner = await work();
  const times = [];
  for (let number = 1; number <= amount; number += 1) {
    await sleep(50);
    const sent = performance.now();
    await utils.addJob(TASK, { number });
    await waitFor(number);
    times.push(Math.round((startedAt - sent) * 1000));
  }
  answer = { times_us: times };
}
console.log(JSON.stringify(answer));
if (runner) await runner.stop();
await utils.release();
process.exit(0);
