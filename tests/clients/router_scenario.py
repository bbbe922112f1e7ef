"""What users of the model router do, with the official client: list, schema, run, collect, and typed errors.

Arguments: a polled model whose first generation outlives the router's deadline, and a synchronous one. The client finds
the router and its key in COMFY_ROUTER_BASE_URL and COMFY_API_KEY.
"""

import os
import sys

from comfy_sdk import Comfy
from comfy_sdk.router_exceptions import (
    ContentPolicyViolation,
    InvalidInput,
    ModelNotFound,
    NotEnabled,
    Unauthorized,
)

polled, at_once = sys.argv[1:]


def refused(kind, call):
    try:
        call()
    except kind as error:
        assert error.request_id, error
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


with Comfy(api_key=os.environ["COMFY_API_KEY"]) as client:
    models = {entry.id: entry for entry in client.models.list(limit=2)}
    assert polled in models and at_once in models, sorted(models)
    assert models[polled].billing["charges_on_policy_rejection"] in ("yes", "no", "unknown")
    page = client.models.list(limit=1000).page()
    assert page.limit == 100 and not page.has_more and page.request_id

    schema = client.models.schema(polled)
    assert not schema.unchanged and schema.etag and schema.document["openapi"].startswith("3.")
    again = client.models.schema(polled, etag=schema.etag)
    assert again.unchanged and again.document is None and again.etag == schema.etag

    # Past the deadline: 504 with Retry-After, and the client collects under the same key by itself.
    result = client.models.run_detailed(polled, {"prompt": "a lighthouse"}, idempotency_key="collected")
    assert result.output["status"] == "Ready", result.output
    replay = client.models.run_detailed(polled, {"prompt": "a lighthouse"}, idempotency_key="collected")
    assert replay.replayed and replay.output == result.output
    assert replay.request_id != result.request_id

    missing = refused(ModelNotFound, lambda: client.models.run("bfl/flux-2-pr0", {"prompt": "x"}))
    assert polled in missing.detail, missing.detail
    wrong = refused(InvalidInput, lambda: client.models.run(at_once, {"image_size": 7}))
    assert wrong.http_status == 422 and {error.loc[0] for error in wrong.errors} == {"body"}, wrong.errors

    output = client.models.run(at_once, {"prompt": "a lighthouse"})
    assert output["images"], output
    policy = refused(ContentPolicyViolation, lambda: client.models.run(at_once, {"prompt": "x"}))
    assert policy.errors[0].type == "content_policy_violation"

with Comfy(api_key="easel_wrong") as client:
    refused(Unauthorized, lambda: client.models.list().page())
with Comfy(api_key=os.environ["KEY_WITHOUT_ROUTER"]) as client:
    refused(NotEnabled, lambda: client.models.list().page())
print("the scenario is through")
