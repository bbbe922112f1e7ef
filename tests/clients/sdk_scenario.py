"""Everything that a user of the official Python client does, against a running server.

Run as `python sdk_scenario.py BASE_URL PHOTO`; prints one line per step that held and exits non-zero at the first that did
not. Works with every version of `comfy-sdk` that Easel promises to serve.
"""

import asyncio
import io
import os
import sys
import uuid
from importlib.metadata import version
from pathlib import Path

base_url, photo = sys.argv[1], sys.argv[2]
os.environ["COMFY_BASE_URL"] = base_url
os.environ.pop("COMFY_API_KEY", None)

import httpx  # noqa: E402
from comfy_low.errors import HashMismatch  # noqa: E402
from comfy_sdk import AsyncComfy, Comfy  # noqa: E402
from comfy_sdk import exceptions as errors  # noqa: E402
from comfy_sdk.events import OutputReady, Progress, StatusChange  # noqa: E402
from PIL import Image  # noqa: E402

TERMINAL = {"succeeded", "canceled", "failed", "expired"}


def step(name):
    print(f"ok {version('comfy-sdk')}: {name}", flush=True)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def invert(image, prefix="sdk"):
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": image}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": prefix}},
    }


def slow(nonce):
    """A graph that takes long enough to be canceled: blurs of a large picture, one after the other."""
    graph = {"0": {"class_type": "EmptyImage", "inputs": {"width": 4096, "height": 4096, "batch_size": 1, "color": nonce}}}
    for n in range(1, 60):
        graph[str(n)] = {
            "class_type": "ImageBlur",
            "inputs": {"image": [str(n - 1), 0], "blur_radius": 31, "sigma": 5.0 + n / 100},
        }
    graph["60"] = {"class_type": "SaveImage", "inputs": {"images": ["59", 0], "filename_prefix": "slow"}}
    return graph


def uploads(client):
    asset = client.assets.from_file(photo)
    asset_id = asset.commit()
    assert asset.created_new is True and asset.expires_at is not None
    step("upload")

    again = client.assets.from_file(photo)
    assert again.commit() == asset_id, "the same bytes and name are the same asset"
    assert again.created_new is False
    renamed = client.assets.from_bytes(Path(photo).read_bytes(), filename="other name ä.png")
    assert renamed.commit() != asset_id and renamed.created_new is False
    step("dedup by hash")

    streamed = client.assets.from_stream(io.BytesIO(os.urandom(100_000)), filename="noise.bin")
    streamed.commit()
    assert client.assets.get(streamed.id).hash == streamed.hash
    streamed.delete()
    raises(errors.NotFound, lambda: client.assets.get(streamed.hash))
    step("stream, get, delete")
    return asset


def runs(client, asset):
    workflow = client.workflows.from_json(invert("placeholder"))
    workflow.set_input("1", "image", asset)
    job = client.submit(workflow)
    assert job.status in {"queued", "running", "succeeded"}
    job.wait(timeout=60)
    assert job.status == "succeeded", job.error
    (output,) = job.get_outputs("3")
    assert (output.type, output.content_type, output.job_id) == ("image", "image/png", job.id)
    step("submit with an asset handle, poll to the end")

    target = Path(os.environ["SCENARIO_OUT"]) / f"inverted-{version('comfy-sdk')}.png"
    output.to_file(str(target))
    with Image.open(target) as made, Image.open(photo) as source:
        source = source.convert("RGB")
        assert made.size == source.size
        for point in [(0, 0), (source.width // 2, source.height // 2), (source.width - 1, source.height - 1)]:
            want = tuple(int(255 * (1 - channel / 255)) for channel in source.getpixel(point))
            got = made.convert("RGB").getpixel(point)
            assert all(abs(a - b) <= 1 for a, b in zip(want, got)), (point, want, got)
    step("download the output; its pixels are right")

    named = client.submit(client.workflows.from_json(invert(Path(photo).name, "named")))
    assert named.wait(timeout=60).status == "succeeded"
    step("a plain file name in the graph")

    events = list(job.events())
    assert isinstance(events[-1], StatusChange) and events[-1].status == "succeeded"
    ready = [event for event in events if isinstance(event, OutputReady)]
    assert [event.output.id for event in ready] == [output.id]
    step("events of a job that is over")

    live = client.submit(client.workflows.from_json(slow(1) | {"61": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}}))
    seen = []
    for event in live.events():
        seen.append(event)
        if isinstance(event, Progress) and event.nodes_done >= 2:
            live.cancel()
    assert isinstance(seen[-1], StatusChange) and seen[-1].status == "canceled", seen[-1]
    progress = [event.value for event in seen if isinstance(event, Progress)]
    assert progress == sorted(progress) and all(0 <= value <= 1 for value in progress)
    assert live.refresh().status == "canceled"
    assert live.cancel().status == "canceled", "canceling twice changes nothing"
    step("live events, cancel while running")

    rehydrated = client.jobs.get(job.id)
    assert [o.id for o in rehydrated.outputs] == [output.id]
    assert rehydrated.get_workflow().format == "api"
    assert rehydrated.get_workflow().graph["2"]["class_type"] == "ImageInvert"
    step("a job by its id, and its workflow")
    return job, output


def lists(client, job):
    ids = [item["id"] for item in httpx.get(f"{base_url}/api/v2/jobs", params={"limit": 100}).json()["jobs"]]
    assert job.id in ids and len(ids) == len(set(ids))
    if hasattr(client, "list_jobs"):
        label = uuid.uuid4().hex
        labelled = client.submit(client.workflows.from_json(invert(Path(photo).name)), metadata={"run": label})
        found = [summary.id for summary in client.list_jobs(metadata={"run": label})]
        assert found == [labelled.id]
        assert labelled.wait(timeout=60).metadata == {"run": label}
        step("labels")
    step("list")


def refusals(client, output):
    submit = lambda graph, **extra: client.submit(client.workflows.from_json(graph), **extra)  # noqa: E731
    bad = raises(errors.InvalidWorkflow, lambda: submit({"1": {"class_type": "NoSuchNode", "inputs": {}}}))
    assert bad.http_status == 422 and bad.request_id, bad
    wide = invert(Path(photo).name)
    wide["4"] = {"class_type": "EmptyImage", "inputs": {"width": 0, "height": "x", "batch_size": 1, "color": 0}}
    wide["3"]["inputs"]["images"] = ["4", 0]
    fields = {entry["field"] for entry in raises(errors.InvalidWorkflow, lambda: submit(wide)).details["node_errors"]["4"]}
    assert fields == {"width", "height"}, fields
    ghost = {"__type": "core/ASSET", "info": {"id": str(uuid.uuid4())}}
    raises(errors.MissingAsset, lambda: submit(invert(ghost)))
    key = str(uuid.uuid4())
    first = submit(invert(Path(photo).name, "key"), idempotency_key=key)
    assert submit(invert(Path(photo).name, "key"), idempotency_key=key).id == first.id
    reuse = raises(errors.IdempotencyKeyReuse, lambda: submit(invert(Path(photo).name, "other"), idempotency_key=key))
    assert reuse.details["job_id"] == first.id
    raises(errors.NotFound, lambda: client.jobs.get(str(uuid.uuid4())))
    raises(errors.NotFound, lambda: client.assets.delete(str(uuid.uuid4())))
    held = raises(errors.ComfyError, lambda: client.assets.delete(output.id))
    assert held.http_status == 409 and held.code == "asset_in_use"
    lied = raises(
        HashMismatch,
        lambda: client._low.post_assets(
            io.BytesIO(b"bytes"), "text/plain", "lie.txt", expected_hash="blake3:" + "0" * 64, file_size=5
        ),
    )
    assert lied.http_status == 409
    # A graph that is valid and fails while it runs: a text file is no picture.
    note = client.assets.from_bytes(b"no picture", filename="note.png")
    failing = client.workflows.from_json(invert("placeholder"))
    failing.set_input("1", "image", note)
    failed = raises(errors.JobFailed, lambda: client.run(failing))
    assert failed.error.code == "node_execution_error" and failed.error.node_id == "1", failed.error
    step("typed errors")


async def asynchronous():
    async with AsyncComfy() as client:
        workflow = client.workflows.from_json(invert("placeholder", "async"))
        workflow.set_input("1", "image", client.assets.from_file(photo))
        job = await client.submit(workflow)
        last = None
        async for event in job.events():
            last = event
        assert isinstance(last, StatusChange) and last.status == "succeeded"
        assert (await job.result()).outputs
    step("the asynchronous client")


with Comfy() as client:
    asset = uploads(client)
    job, output = runs(client, asset)
    lists(client, job)
    refusals(client, output)
asyncio.run(asynchronous())
print(f"scenario passed with comfy-sdk {version('comfy-sdk')}")
