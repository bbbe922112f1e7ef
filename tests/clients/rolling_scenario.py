"""What a user of the official Python client does all day, until standard input ends.

Run as `python rolling_scenario.py BASE_URL`, with the key in COMFY_API_KEY; exits non-zero at the first failure, says when the
first job ran, and prints how many did. Replicas restart meanwhile, and nothing here knows of it.
"""

import os
import sys
import threading

base_url = sys.argv[1]
os.environ["COMFY_BASE_URL"] = base_url

from comfy_sdk import Comfy  # noqa: E402
from PIL import Image  # noqa: E402

stop = threading.Event()


def wait_for_the_end():
    sys.stdin.buffer.read()
    stop.set()


threading.Thread(target=wait_for_the_end, daemon=True).start()


def shade(number):
    """Far apart for two jobs that follow each other: an inverted sample is rounded down, so it may be one less than expected."""
    return number * 16 % 256


def picture(number):
    path = f"/tmp/rolling-{os.getpid()}.png"
    Image.new("RGB", (32, 32), (shade(number), number % 256, number // 256 % 256)).save(path)
    with open(path, "rb") as file:
        made = file.read()
    os.remove(path)
    return made


def graph():
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": "placeholder"}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "rolling"}},
    }


ran = 0
with Comfy() as client:
    while not stop.is_set():
        asset = client.assets.from_bytes(picture(ran), filename=f"rolling-{ran}.png")
        workflow = client.workflows.from_json(graph())
        workflow.set_input("1", "image", asset)
        job = client.submit(workflow)
        assert job.wait(timeout=120).status == "succeeded", job.error
        (output,) = job.get_outputs("3")
        path = f"/tmp/rolling-{os.getpid()}-output.png"
        output.to_file(path)
        with Image.open(path) as made:
            assert 0 <= 255 - shade(ran) - made.getpixel((3, 3))[0] <= 1, (ran, made.getpixel((3, 3)))
        os.remove(path)
        events = list(job.events())
        assert events[-1].status == "succeeded", events[-1]
        assert client.jobs.get(job.id).status == "succeeded"
        ran += 1
        if ran == 1:
            print("at work", flush=True)
print(ran)
