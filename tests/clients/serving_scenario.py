"""What users of serving providers do, with the official client: name one, fall back to one, and learn what was dropped.

Argument: a model that `together` serves too, whose own partner refuses its first call. The client finds the router and its key
in COMFY_ROUTER_BASE_URL and COMFY_API_KEY.
"""

import os
import sys

from comfy_sdk import Comfy
from comfy_sdk.router_exceptions import InvalidInput

(model,) = sys.argv[1:]


def refused(call):
    try:
        call()
    except InvalidInput as error:
        return error
    raise AssertionError("InvalidInput was not raised")


with Comfy(api_key=os.environ["COMFY_API_KEY"]) as client:
    body = {"prompt": "a lighthouse", "acceleration": "high"}
    named = client.models.run_detailed(model, body, model_provider="together")
    assert named.output["images"][0]["url"], named
    assert named.serving_provider is None, named
    assert named.dropped_params == ("acceleration (together has no such choice)",), named

    fallen = client.models.run_detailed(model, body, fallback_provider="together", idempotency_key="k")
    assert fallen.serving_provider == "together" and not fallen.replayed, fallen
    again = client.models.run_detailed(model, body, fallback_provider="together", idempotency_key="k")
    assert again.replayed and again.serving_provider == "together", again
    assert again.output == fallen.output and again.dropped_params == fallen.dropped_params

    strict = refused(lambda: client.models.run(model, body, model_provider="together", strict_mode=True))
    assert strict.http_status == 422, strict
    unknown = refused(lambda: client.models.run(model, body, model_provider="nobody"))
    assert unknown.http_status == 400 and "fal, together" in str(unknown), unknown

    off = client.models.run(model, {"prompt": "a tower"}, model_provider="together", fallback_provider=False)
    assert off["images"], off

print("the scenario is through")
