// What `cargo xtask bench cloud` asks of pg-boss. The handler does nothing.
import PgBoss from "pg-boss";
import { measure, url } from "./node_peer.mjs";

const QUEUE = "bench";
const boss = new PgBoss({ connectionString: url, max: 16 });
await boss.start();
await boss.createQueue(QUEUE);
await measure({
  submit: (number) => boss.send(QUEUE, { number }),
  // The shortest interval that it takes, and the batch that its documentation recommends for throughput.
  work: (took) => boss.work(QUEUE, { pollingIntervalSeconds: 0.5, batchSize: 1000 }, async (jobs) => took(jobs.length)),
  end: () => boss.stop({ graceful: true, wait: true, timeout: 30000 }),
});
