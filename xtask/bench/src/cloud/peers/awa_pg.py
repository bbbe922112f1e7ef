"""What `cargo xtask bench cloud` asks of awa: submissions, jobs to their ends, and jobs one at a time on an idle queue.

`python awa_pg.py URL submit SECONDS | finish SECONDS | idle COUNT` prints one line of JSON. The handler does nothing.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass

import awa

PRODUCERS = 64
QUEUE = "bench"


@dataclass
class Trivial:
    number: int


async def submit(client, seconds):
    """Inserts jobs from many tasks at a time, each in a transaction of its own; how many."""
    deadline = time.monotonic() + seconds
    count = 0

    async def produce():
        nonlocal count
        while time.monotonic() < deadline:
            count += 1
            await client.insert(Trivial(count), queue=QUEUE)

    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))
    return count


async def main(url, what, amount):
    await awa.AsyncClient(url).migrate()
    client = awa.AsyncClient(url, max_connections=16)
    ended = 0
    started_at = 0.0
    news = asyncio.Event()

    @client.task(Trivial, queue=QUEUE)
    async def trivial(job):
        nonlocal ended, started_at
        started_at = time.monotonic()
        ended += 1
        news.set()

    async def wait_for(count):
        while ended < count:
            news.clear()
            await news.wait()

    began = time.monotonic()
    if what == "submit":
        count = await submit(client, amount)
        answer = {"rate": count / (time.monotonic() - began)}
    elif what == "finish":
        await client.start([(QUEUE, PRODUCERS)])
        began = time.monotonic()
        count = await submit(client, amount)
        await wait_for(count)
        answer = {"rate": count / (time.monotonic() - began), "count": count}
        await client.shutdown()
    else:
        await client.start([(QUEUE, PRODUCERS)])
        times = []
        for number in range(int(amount)):
            await asyncio.sleep(0.05)
            sent = time.monotonic()
            await client.insert(Trivial(number), queue=QUEUE)
            await wait_for(number + 1)
            times.append(int((started_at - sent) * 1e6))
        answer = {"times_us": times}
        await client.shutdown()
    print(json.dumps(answer), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
