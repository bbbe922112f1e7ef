// What users of the official client for TypeScript do with workflows: upload, submit, follow, download, cancel, and typed errors.
//
// Arguments: a picture, and a folder for what is downloaded. The client finds the server in COMFY_BASE_URL; `EASEL_TYPESCRIPT_SDK`
// is a folder with node_modules/@comfyorg/sdk. Prints one line per step that held.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { Readable } from "node:stream";

const sdk = createRequire(path.join(process.env.EASEL_TYPESCRIPT_SDK, "package.json"))("@comfyorg/sdk");
const [photo, folder] = process.argv.slice(2);
const client = new sdk.Comfy();
const step = (name) => console.log(`ok ${name}`);

const invert = (image, prefix = "typescript") => ({
  1: { class_type: "LoadImage", inputs: { image } },
  2: { class_type: "ImageInvert", inputs: { image: ["1", 0] } },
  3: { class_type: "SaveImage", inputs: { images: ["2", 0], filename_prefix: prefix } },
});

// A graph that takes long enough to be canceled: blurs of a large picture, one after the other.
function slow() {
  const graph = { 0: { class_type: "EmptyImage", inputs: { width: 4096, height: 4096, batch_size: 1, color: 7 } } };
  for (let n = 1; n < 60; n += 1) {
    graph[n] = { class_type: "ImageBlur", inputs: { image: [String(n - 1), 0], blur_radius: 31, sigma: 5 + n / 100 } };
  }
  graph[60] = { class_type: "SaveImage", inputs: { images: ["59", 0], filename_prefix: "slow" } };
  return graph;
}

const submit = (graph, options) => client.submit(client.workflows.fromJson(graph), options);

async function refused(kind, call) {
  const error = await call().then(() => assert.fail(`${kind.name} was not thrown`), (error) => error);
  assert.ok(error instanceof kind, String(error));
  return error;
}

const asset = client.assets.fromFile(photo);
const id = await asset.commit();
assert.ok(asset.createdNew && asset.expiresAt);
const again = client.assets.fromFile(photo);
assert.equal(await again.commit(), id);
assert.equal(again.createdNew, false);
const noise = await client.assets.fromStream(Readable.from([randomBytes(100_000)]), { filename: "noise ä.bin" });
await noise.commit();
assert.equal(await (await client.assets.get(noise.id)).hash(), await noise.hash());
await noise.delete();
await refused(sdk.NotFound, () => client.assets.get(noise.id));
step("upload, the same bytes once more, a stream, get, delete");

const workflow = client.workflows.fromJson(invert("placeholder"));
workflow.setInput("1", "image", asset);
const job = await client.run(workflow, { timeoutMs: 60_000 });
const [output] = job.getOutputs("3");
assert.deepEqual([output.type, output.contentType, output.jobId, output.nodeId], ["image", "image/png", job.id, "3"]);
const bytes = await output.toBytes();
assert.equal(bytes.length, output.sizeBytes);
assert.deepEqual(await readFile(await output.toFile(path.join(folder, "inverted.png"))), Buffer.from(bytes));
assert.deepEqual(await output.toBytes({ range: [1, 3] }), bytes.slice(1, 4));
const { url } = await output.getDownloadUrl();
assert.deepEqual(Buffer.from(await (await fetch(url)).arrayBuffer()), Buffer.from(bytes));
step("run with an asset, download whole, in part and by a signed address");

const past = await Array.fromAsync(job.events());
assert.equal(past.at(-1).status, "succeeded");
assert.deepEqual(past.filter(({ kind }) => kind === "outputReady").map(({ output }) => output.id), [output.id]);
const live = await submit(slow());
const seen = [];
for await (const event of live.events()) {
  seen.push(event);
  if (event.kind === "progress" && event.nodesDone >= 2) await live.cancel();
}
assert.equal(seen.at(-1).status, "canceled");
assert.ok(seen.some(({ kind }) => kind === "progress"));
assert.equal((await live.refresh()).status, "canceled");
step("events of a job that is over, and of one that is canceled while it runs");

const rebuilt = await client.jobs.get(job.id);
assert.deepEqual(rebuilt.outputs.map(({ id }) => id), [output.id]);
assert.equal((await rebuilt.getWorkflow()).workflow["2"].class_type, "ImageInvert");
step("a job by its id, and its workflow");

const bad = await refused(sdk.InvalidWorkflow, () => submit({ 1: { class_type: "NoSuchNode", inputs: {} } }));
assert.equal(bad.httpStatus, 422);
await refused(sdk.MissingAsset, () => submit(invert({ __type: "core/ASSET", info: { id: randomUUID() } })));
await refused(sdk.NotFound, () => client.jobs.get(randomUUID()));
const name = path.basename(photo);
const idempotencyKey = randomUUID();
const first = await submit(invert(name, "key"), { idempotencyKey });
assert.equal((await submit(invert(name, "key"), { idempotencyKey })).id, first.id);
const reuse = await refused(sdk.IdempotencyKeyReuse, () => submit(invert(name, "other"), { idempotencyKey }));
assert.equal(reuse.details.job_id, first.id);
// Valid, and it fails while it runs: a text is no picture.
const failing = client.workflows.fromJson(invert("placeholder"));
failing.setInput("1", "image", client.assets.fromBytes(new TextEncoder().encode("no picture"), { filename: "note.png" }));
const failed = await refused(sdk.JobFailed, () => client.run(failing));
assert.deepEqual([failed.error.code, failed.error.node_id], ["node_execution_error", "1"]);
step("typed errors");
console.log("the scenario is through");
