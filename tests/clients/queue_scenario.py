"""What users of the queue do, with the official client: submit, look, collect, subscribe, rebuild a handle, cancel.

Arguments: a polled model, a synchronous one, and one whose first request runs until it is cancelled. The client finds the
router and its key in COMFY_ROUTER_BASE_URL and COMFY_API_KEY.
"""

import asyncio
import os
import sys

from comfy_sdk import AsyncComfy, Comfy
from comfy_sdk.router_exceptions import (
    AlreadyCompleted,
    Cancelled,
    InvalidInput,
    RequestNotFound,
)

polled, at_once, cancellable = sys.argv[1:]


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


with Comfy(api_key=os.environ["COMFY_API_KEY"]) as client:
    handle = client.models.submit(polled, {"prompt": "a lighthouse"}, idempotency_key="queued")
    assert handle.model == polled and handle.request_id
    output = handle.get(timeout=60)
    assert output["status"] == "Ready", output
    again = client.models.submit(polled, {"prompt": "a lighthouse"}, idempotency_key="queued")
    assert again.request_id == handle.request_id
    rebuilt = client.models.handle(polled, handle.request_id)
    status = rebuilt.status()
    assert status.is_completed and status.error_type is None, status
    assert rebuilt.get() == output
    late = refused(AlreadyCompleted, rebuilt.cancel)
    assert late.http_status == 409, late

    updates = []
    output = client.models.subscribe(
        at_once, {"prompt": "a lighthouse"}, on_queue_update=updates.append, timeout=60
    )
    assert output["images"], output
    assert updates[-1].is_completed, updates

    wrong = refused(InvalidInput, lambda: client.models.submit(at_once, {"image_size": 7}))
    assert wrong.http_status == 422, wrong
    elsewhere = client.models.handle(at_once, handle.request_id)
    missing = refused(RequestNotFound, elsewhere.status)
    assert missing.http_status == 404 and missing.request_id, missing

    running = client.models.submit(cancellable, {"prompt": "a lighthouse"})
    # Of what still waits here, the partner would never hear.
    seen = next(event for event in running.iter_events(timeout=60) if event.status != "IN_QUEUE")
    assert seen.status == "IN_PROGRESS", seen
    assert running.cancel().status == "CANCELLATION_REQUESTED"
    ended = refused(Cancelled, lambda: running.get(timeout=60))
    assert ended.error_type == "cancelled", ended


async def concurrently():
    async with AsyncComfy(api_key=os.environ["COMFY_API_KEY"]) as client:
        handles = [await client.models.submit(at_once, {"prompt": f"number {n}"}) for n in range(5)]
        outputs = await asyncio.gather(*(handle.get(timeout=60) for handle in handles))
        assert all(output["images"] for output in outputs), outputs
        assert len({handle.request_id for handle in handles}) == 5


asyncio.run(concurrently())
print("the scenario is through")
