// What users of the model router do, with the official client for TypeScript: run, collect, replay, and typed errors.
//
// Arguments: a polled model whose first generation outlives the router's deadline, and a synchronous one. The client finds the
// router and its key in COMFY_ROUTER_BASE_URL and COMFY_API_KEY; `EASEL_TYPESCRIPT_SDK` is a folder with node_modules/@comfyorg/sdk.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const { comfy, routerErrors, ComfyError, NotFound, Unauthorized } = createRequire(path.join(process.env.EASEL_TYPESCRIPT_SDK, "package.json"))("@comfyorg/sdk");
const [polled, atOnce] = process.argv.slice(2);
const body = { prompt: "a lighthouse" };

async function refused(kind, model, input, options) {
  const error = await comfy.models.run(model, input, options).then(() => assert.fail(`${model} ran`), (error) => error);
  assert.ok(error instanceof kind, String(error));
  assert.match(error.requestId, /^[0-9a-f-]{36}$/);
  return error;
}

// Past the deadline: 504, after which the client collects under the same key.
const late = await refused(ComfyError, polled, body, { idempotencyKey: "collected", retry: false });
assert.deepEqual([late.code, late.httpStatus], ["deadline_exceeded", 504]);
const result = await comfy.models.run(polled, body, { idempotencyKey: "collected" });
assert.equal(result.data.status, "Ready");
const replay = await comfy.models.run(polled, body, { idempotencyKey: "collected" });
assert.deepEqual(replay.data, result.data);
assert.notEqual(replay.requestId, result.requestId);

const { data } = await comfy.models.run(atOnce, body);
assert.ok(data.images.length > 0, JSON.stringify(data));

const missing = await refused(NotFound, "bfl/flux-2-pr0", body);
assert.ok(missing.message.includes(polled), missing.message);
const wrong = await refused(ComfyError, atOnce, { image_size: 7 });
assert.deepEqual([wrong.code, wrong.httpStatus, wrong.details.detail[0].loc[0]], ["invalid_input", 422, "body"]);
const policy = await refused(ComfyError, atOnce, { prompt: "x" });
assert.equal(policy.code, "content_policy_violation");

// The classes of the client's own table, for those who read an answer themselves.
const answer = await fetch(`${process.env.COMFY_ROUTER_BASE_URL}/v2/models/${atOnce}`, {
  method: "POST",
  headers: { Authorization: `Bearer ${process.env.COMFY_API_KEY}`, "Content-Type": "application/json" },
  body: JSON.stringify({ image_size: 7 }),
});
const typed = routerErrors.toRouterError(answer.status, answer.headers, await answer.json());
assert.ok(typed instanceof routerErrors.InvalidInput, String(typed));
assert.deepEqual(typed.detail.map(({ loc }) => loc[0]), wrong.details.detail.map(() => "body"));

comfy.config({ credentials: "easel_wrong" });
await refused(Unauthorized, atOnce, body);
comfy.config({ credentials: process.env.KEY_WITHOUT_ROUTER });
const off = await refused(ComfyError, atOnce, body);
assert.deepEqual([off.code, off.httpStatus], ["not_enabled", 403]);
console.log("the scenario is through");
