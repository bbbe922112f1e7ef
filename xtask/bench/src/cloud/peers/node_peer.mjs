// What the scripts of `cargo xtask bench cloud` for queues on Node have in common: `node SCRIPT URL submit SECONDS | finish SECONDS |
// idle COUNT` prints one line of JSON.
import { setTimeout as sleep } from "node:timers/promises";

const PRODUCERS = 64;
export const url = process.argv[2];

// Measures a queue: `submit` puts a job with a number into it, `work` begins to take jobs and tells its argument how many began, and
// `end` lets go of everything.
export async function measure({ submit, work, end }) {
  const [what, amount] = [process.argv[3], Number(process.argv[4])];
  let ended = 0;
  let startedAt = 0;
  let tell = () => {};
  const took = (count) => {
    startedAt = performance.now();
    ended += count;
    tell();
  };
  const waitFor = async (count) => {
    while (ended < count) await new Promise((resolve) => { tell = resolve; });
  };
  const submitFor = async (seconds) => {
    const deadline = performance.now() + seconds * 1000;
    let count = 0;
    const produce = async () => {
      while (performance.now() < deadline) {
        count += 1;
        await submit(count);
      }
    };
    await Promise.all(Array.from({ length: PRODUCERS }, produce));
    return count;
  };

  const began = performance.now();
  const rate = (count) => count / ((performance.now() - began) / 1000);
  let answer;
  if (what === "submit") {
    answer = { rate: rate(await submitFor(amount)) };
  } else if (what === "finish") {
    await work(took);
    const count = await submitFor(amount);
    await waitFor(count);
    answer = { rate: rate(count), count };
  } else {
    await work(took);
    const times = [];
    for (let number = 1; number <= amount; number += 1) {
      await sleep(50);
      const sent = performance.now();
      await submit(number);
      await waitFor(number);
      times.push(Math.round((startedAt - sent) * 1000));
    }
    answer = { times_us: times };
  }
  console.log(JSON.stringify(answer));
  await end();
  process.exit(0);
}
