// What `cargo xtask bench cloud` asks of pg-boss: `node pg_boss.mjs URL submit SECONDS | finish SECONDS | idle COUNT` prints one
// line of JSON. The handler does nothing.
import PgBoss from "pg-boss";
import { setTimeout as sleep } from "node:timers/promises";

const PRODUCERS = 64;
const QUEUE = "bench";
const [url, what, amount] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const boss = new PgBoss({ connectionString: url, max: 16 });
await boss.start();
await boss.createQueue(QUEUE);

async function submit(seconds) {
  const deadline = performance.now() + seconds * 1000;
  let count = 0;
  const produce = async () => {
    while (performance.now() < deadline) {
      count += 1;
      await boss.send(QUEUE, { number: count });
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, produce));
  return count;
}

let ended = 0;
let startedAt = 0;
let tell = () => {};
const work = async () => {
  // The shortest interval that it takes, and the batch that its documentation recommends for throughput.
  await boss.work(QUEUE, { pollingIntervalSeconds: 0.5, batchSize: 1000 }, async (jobs) => {
    startedAt = performance.now();
    ended += jobs.length;
    tell();
  });
};
const waitFor = async (count) => {
  while (ended < count) await new Promise((resolve) => { tell = resolve; });
};

const began = performance.now();
let answer;
if (what === "submit") {
  const count = await submit(amount);
  answer = { rate: count / ((performance.now() - began) / 1000) };
} else if (what === "finish") {
  await work();
  const count = await submit(amount);
  await waitFor(count);
  answer = { rate: count / ((performance.now() - began) / 1000), count };
} else {
  await work();
  const times = [];
  for (let number = 1; number <= amount; number += 1) {
    await sleep(50);
    const sent = performance.now();
    await boss.send(QUEUE, { number });
    await waitFor(number);
    times.push(Math.round((startedAt - sent) * 1000));
  }
  answer = { times_us: times };
}
console.log(JSON.stringify(answer));
await boss.stop({ graceful: true, wait: true, timeout: 30000 });
process.exit(0);
