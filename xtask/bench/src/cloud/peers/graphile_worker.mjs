// What `cargo xtask bench cloud` asks of graphile-worker. The task does nothing.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { measure, url } from "./node_peer.mjs";

const TASK = "bench";
const pool = new pg.Pool({ connectionString: url, max: 16 });
// The library asks for both: a connection that fails is told by the query that it fails.
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();
let runner;
await measure({
  submit: (number) => utils.addJob(TASK, { number }),
  work: async (took) => {
    runner = await run({
      pgPool: pool,
      logger,
      concurrency: 24,
      noHandleSignals: true,
      pollInterval: 1000,
      // Its queue in memory and its batched completions, as its page on performance recommends.
      preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
      taskList: { [TASK]: async () => took(1) },
    });
  },
  end: async () => {
    await runner?.stop();
    await utils.release();
  },
});
