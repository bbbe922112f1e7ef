// Models: search, and one model as a form with the same call as code.
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { Copy, Empty, Icon, Instead, Tabs } from "./parts.js";
import { address, ask, askJson, href, html, local, money, refine, route, size, span, useRead } from "./kit.js";

const PAGE = 60;
// Servers take bodies of 32 MiB unless they are told otherwise, and base64 makes a third more of a file.
const MOST = 24e6;
const TOO_MUCH = `The files of a call may have ${size(MOST)} together. Give the model the address of a larger one.`;
const isTooMuch = (files) => files.reduce((sum, file) => sum + file.size, 0) > MOST;

async function all(signal) {
  const models = [];
  let cursor;
  do {
    const query = new URLSearchParams({ limit: 100, ...(cursor && { cursor }) });
    const page = await askJson(`v1/models?${query}`, { signal });
    models.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor);
  return models;
}

export function Models() {
  const state = useRead(all, []);
  const text = route.value.query.get("q") ?? "";
  const [most, more] = useState(PAGE);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = state.data?.filter((model) => words.every((word) => model.id.includes(word)));
  useEffect(() => more(PAGE), [text]);
  return html`<main>
    <header class="top"><h1>Models</h1>${state.data && html`<span class="muted">${found.length === state.data.length ? found.length : `${found.length} of ${state.data.length}`}</span>`}</header>
    ${state.data && html`<div class="filters"><form role="search" onSubmit=${(event) => event.preventDefault()}><label class="hidden" for="search">Search models</label>
      <input id="search" type="search" placeholder="Search models" spellcheck="false" value=${text} onInput=${(event) => refine({ q: event.target.value })} /></form></div>`}
    <${Instead} state=${state} what="models" />
    ${found && (found.length ? html`<ul class="cards" data-rows>${found.slice(0, most).map((model) => html`<li key=${model.id}><a data-row href=${href(["models", model.provider, model.model])}>
      <span class="badge" aria-hidden="true">${model.provider.slice(0, 2)}</span><span><strong>${model.model}</strong><span class="muted">${model.provider}</span></span></a></li>`)}</ul>`
      : html`<${Empty} title="No model fits">${state.data.length ? "Search for another word." : "No partner has its credentials yet; the server names the variables at its start."}<//>`)}
    ${found?.length > most && html`<nav class="pages"><button onClick=${() => more(most + PAGE)}>More</button></nav>`}
  </main>`;
}

// --- One model ---

// The schema of a field, with what it refers to put in.
function resolve(document, schema, depth = 0) {
  if (!schema || depth > 8) return schema ?? {};
  if (schema.$ref) return resolve(document, { ...schema.$ref.replace("#/", "").split("/").reduce((at, part) => at?.[part], document), ...schema, $ref: undefined }, depth + 1);
  if (schema.allOf) return schema.allOf.reduce((all, it) => {
    const part = resolve(document, it, depth + 1);
    return { ...all, ...part, properties: { ...all.properties, ...part.properties }, required: [...(all.required ?? []), ...(part.required ?? [])] };
  }, { ...schema, allOf: undefined });
  const choices = schema.anyOf ?? schema.oneOf;
  const real = choices?.map((it) => resolve(document, it, depth + 1)).filter((it) => it.type !== "null");
  if (real?.length === 1) return { ...real[0], ...schema, anyOf: undefined, oneOf: undefined };
  return schema;
}

function fieldsOf(document) {
  const operation = Object.values(document?.paths ?? {}).map((path) => path.post).find(Boolean);
  const body = resolve(document, Object.values(operation?.requestBody?.content ?? {})[0]?.schema);
  const required = new Set(body.required ?? []);
  const fields = Object.entries(body.properties ?? {}).map(([name, its]) => {
    const schema = resolve(document, its);
    const item = schema.type === "array" ? resolve(document, schema.items) : schema;
    return { name, schema, required: required.has(name), takes: takesFile(name, item) && item, many: item !== schema };
  });
  return fields.sort((a, b) => b.required - a.required);
}

// Whether a text may be a file. No schema says so for sure: names and descriptions do, and a button too many harms nobody.
const takesFile = (name, { type, enum: choices, contentEncoding, format, description }) => [type].flat().includes("string") && !choices
  && (contentEncoding === "base64" || format === "byte" || /data ur[il]|base64/i.test(description)
    || /^(input_?|start_?|end_?|first_?|last_?|source_?|reference_?|control_?|style_?)*(images?|pictures?|photos?|img|masks?|videos?|audios?|frames?|files?)(_?(urls?|uris?|prompt|frame|image|\d+))*$/i.test(name));

// A file as a model takes it: plain base64 where its schema says so, otherwise a data URL.
const readFile = (file, { contentEncoding, format }) => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.onerror = () => fail(new Error(`${file.name} cannot be read: ${reader.error.message}`));
  reader.onload = () => done({ name: file.name, size: file.size, url: reader.result, value: contentEncoding === "base64" || format === "byte" ? reader.result.slice(reader.result.indexOf(",") + 1) : reader.result });
  reader.readAsDataURL(file);
});

const kindOf = (schema) => {
  const type = [schema.type].flat().find((it) => it !== "null");
  if (schema.enum) return "choice";
  if (type === "boolean") return "boolean";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return schema.maxLength > 200 || /prompt|text|caption|instruction/.test(schema.title?.toLowerCase() ?? "") || !schema.maxLength && !schema.format && !schema.pattern ? "text" : "line";
  return "json";
};

// What a field holds as a value; throws words about what is wrong with it.
function valueOf({ name, schema }, text) {
  switch (kindOf(schema)) {
    case "boolean": return text === "true";
    case "number": {
      const value = Number(text);
      if (Number.isNaN(value)) throw new Error(`${name} is a number`);
      return value;
    }
    case "choice": return schema.enum.find((it) => String(it) === text) ?? text;
    case "json": try { return JSON.parse(text); } catch { throw new Error(`${name} is JSON, such as ["a"] or {"a": 1}`); }
    default: return text;
  }
}

function Field({ field, text, set, told, tell, files, pick }) {
  const { name, schema, required, takes, many } = field;
  const box = useRef();
  const take = async (list) => {
    const taken = [...list].slice(0, many ? undefined : 1);
    if (isTooMuch(taken)) { tell(TOO_MUCH); return; }
    try {
      const read = await Promise.all(taken.map((file) => readFile(file, takes)));
      pick((before) => (many ? [...before, ...read] : read));
    } catch (error) { tell(error.message); }
  };
  // A text that is dropped goes where it falls, as everywhere.
  const onDragOver = (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); };
  const onDrop = (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take(event.dataTransfer.files);
  };
  const kind = kindOf(schema);
  const id = `field-${name}`;
  const change = (event) => set(event.target.value);
  const preset = schema.default === undefined ? undefined : typeof schema.default === "object" ? JSON.stringify(schema.default) : String(schema.default);
  const bounds = [schema.minimum !== undefined && `from ${schema.minimum}`, schema.maximum !== undefined && `to ${schema.maximum}`].filter(Boolean).join(" ");
  const common = { id, value: text, onInput: change, required, "aria-invalid": told ? "true" : undefined, "aria-describedby": `${id}-help`, ...(files.length > 0 && !many && { disabled: true, value: "", placeholder: "The file below is sent." }) };
  return html`<div class="field" ...${takes && { onDrop, onDragOver }}><label for=${id}>${name}${required && html`<span class="must" aria-hidden="true">*</span>`}<span class="type">${kind === "choice" ? "" : [schema.type].flat().filter((it) => it && it !== "null").join(" or ")} ${bounds}</span></label>
    ${kind === "choice" ? html`<select ...${common} onChange=${change}>${!required && html`<option value="">${preset === undefined ? "" : `${preset} (preset)`}</option>`}${required && !text && html`<option value="">Choose</option>`}${schema.enum.map((it) => html`<option value=${String(it)}>${String(it)}</option>`)}</select>`
      : kind === "boolean" ? html`<select ...${common} onChange=${change}><option value="">${preset === undefined ? "" : `${preset} (preset)`}</option><option value="true">true</option><option value="false">false</option></select>`
      : kind === "number" ? html`<input type="number" step=${schema.type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} placeholder=${preset} ...${common} />`
      : kind === "line" ? html`<input type="text" maxlength=${schema.maxLength} placeholder=${preset} spellcheck="false" ...${common} />`
      : html`<textarea rows=${kind === "json" ? 2 : 3} class=${kind === "json" ? "code" : ""} spellcheck=${kind === "json" ? "false" : "true"} placeholder=${preset} maxlength=${schema.maxLength} ...${common} />`}
    ${takes && html`<div class="files" ref=${box}>${files.map((file) => html`<span class="label">${file.url.startsWith("data:image/") && html`<img src=${file.url} alt="" />`}${file.name}<span>${size(file.size)}</span>
      <button type="button" class="quiet icon-only" aria-label=${`Remove ${file.name}`} onClick=${() => { pick((before) => before.filter((it) => it !== file)); box.current.querySelector(":scope > button").focus(); }}><${Icon} name="close" /></button></span>`)}
      <button type="button" aria-label=${`Choose a file for ${name}`} onClick=${() => box.current.lastElementChild.click()}>Choose a file</button><span class="hint">or drop it here</span>
      <input type="file" hidden multiple=${many} onChange=${(event) => { take(event.target.files); event.target.value = ""; }} /></div>`}
    <p id=${`${id}-help`} class=${told ? "wrong" : "hint"}>${told ?? schema.description ?? ""}</p></div>`;
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function code(language, id, body) {
  const url = address(`v1/models/${id}`).href;
  const text = JSON.stringify(body, null, 2);
  if (language === "curl") return `curl ${url} \\\n  -H "Authorization: Bearer $EASEL_API_KEY" \\\n  -H "Idempotency-Key: $(uuidgen)" \\\n  --json ${quoted(text)}`;
  if (language === "python") {
    const literal = text.replace(/(?<=[[,:{]\s*|^\s*)(true|false|null)(?=\s*[,\]}]|$)/gm, (it) => ({ true: "True", false: "False", null: "None" })[it]);
    return `import os, uuid\nimport httpx\n\nanswer = httpx.post(\n    "${url}",\n    headers={\n        "Authorization": f"Bearer {os.environ['EASEL_API_KEY']}",\n        "Idempotency-Key": str(uuid.uuid4()),\n    },\n    json=${literal.replaceAll("\n", "\n    ")},\n    timeout=600,\n)\nanswer.raise_for_status()\nprint(answer.json())`;
  }
  return `const answer = await fetch("${url}", {\n  method: "POST",\n  headers: {\n    "Authorization": \`Bearer \${process.env.EASEL_API_KEY}\`,\n    "Content-Type": "application/json",\n    "Idempotency-Key": crypto.randomUUID(),\n  },\n  body: JSON.stringify(${text.replaceAll("\n", "\n  ")}),\n});\nif (!answer.ok) throw new Error(await answer.text());\nconsole.log(await answer.json());`;
}

// Addresses in an answer, wherever they are.
function addresses(value, found = []) {
  if (typeof value === "string" && /^https?:/.test(value)) found.push(value);
  else if (value && typeof value === "object") Object.values(value).forEach((it) => addresses(it, found));
  return found;
}

function Answer({ answer }) {
  const { json, text, picture, took, status } = answer;
  const links = json ? [...new Set(addresses(json))] : [];
  const own = (url) => url.includes("/signed/");
  return html`<section aria-label="The answer"><h2>Answer <span class="muted">${status}, ${span(took)}</span></h2>
    ${picture && html`<img class="answer" src=${picture} alt="The result" />`}
    ${links.length > 0 && html`<ul class="results">${links.map((url) => html`<li>${own(url) && /\.(png|jpe?g|webp|gif)$/i.test(new URL(url).pathname) && html`<img class="answer" src=${local(url)} alt="A result" />`}
      <a href=${own(url) ? local(url) : url} target="_blank" rel="noopener noreferrer"><${Icon} name="out" /> ${new URL(url).pathname.split("/").pop() || url}</a></li>`)}</ul>`}
    ${(json || text) && html`<div class="code-box"><${Copy} text=${text} label="Copy the answer" /><pre tabindex="0">${json ? JSON.stringify(json, null, 2) : text}</pre></div>`}</section>`;
}

// What a call would cost, as the server tells it.
const priceOf = (it) => [
  it.source === "exact" ? `A call costs ${money(it.amount_cents)}.` : it.source === "estimated" ? `A call costs ${money(it.min_cents)} to ${money(it.max_cents)}.` : "The cost of a call is known when it ends.",
  it.hold_cents > 0 && `${money(it.hold_cents)} are held while it runs.`,
  it.pricing_as_of && `Prices of ${it.pricing_as_of}.`,
].filter(Boolean).join(" ");

export function Model({ path: [provider, model] }) {
  const id = `${provider}/${model}`;
  const state = useRead((signal) => askJson(`v1/models/${id}/openapi.json`, { signal }), [id]);
  const fields = useMemo(() => fieldsOf(state.data), [state.data]);
  const authored = state.data?.["x-service-input-schema-authored"] !== false && fields.length > 0;
  const [texts, setTexts] = useState({});
  const [picked, setPicked] = useState({});
  const [raw, setRaw] = useState("{\n}");
  const [language, choose] = useState("curl");
  const [told, tell] = useState({});
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState(null);
  const [since, setSince] = useState(null);
  const [price, setPrice] = useState(null);
  const stop = useRef();
  // What was priced is no longer what stands there.
  useEffect(() => setPrice(null), [texts, picked, raw]);
  useEffect(() => () => stop.current?.abort(), []);

  const tellOf = (name, words) => tell((before) => ({ ...before, [name]: words }));
  const pick = (name, change) => setPicked((before) => {
    const after = { ...before, [name]: change(before[name] ?? []) };
    const wrong = isTooMuch(Object.values(after).flat());
    tellOf(name, wrong ? TOO_MUCH : undefined);
    return wrong ? before : after;
  });

  // `cut` leaves the most of files out, for people.
  const collect = (strict, cut = strict ? "" : "…") => {
    const wrong = {};
    const body = {};
    if (!authored) {
      try { return [JSON.parse(raw), {}]; } catch (error) { return [{}, { "": `This is not JSON: ${error.message}` }]; }
    }
    for (const field of fields) {
      const files = (picked[field.name] ?? []).map(({ value }) => (cut && value.length > 64 ? value.slice(0, 64) + cut : value));
      const text = field.many || !files.length ? texts[field.name] ?? "" : "";
      if (files.length && !text) { body[field.name] = field.many ? files : files[0]; continue; }
      if (text === "") { if (field.required && strict) wrong[field.name] = "This is needed."; else if (field.required) body[field.name] = field.schema.default ?? field.schema.enum?.[0] ?? { number: 0, boolean: false, json: [] }[kindOf(field.schema)] ?? "…"; continue; }
      try { body[field.name] = files.length ? [valueOf(field, text), files].flat() : valueOf(field, text); } catch (error) { wrong[field.name] = error.message; }
    }
    return [body, wrong];
  };
  // The body as JSON; nothing, and the focus on the first field that is wrong, if one is.
  const checked = () => {
    const [body, wrong] = collect(true);
    tell(wrong);
    setProblem(wrong[""] ?? null);
    const [first] = Object.keys(wrong);
    if (first === undefined) return JSON.stringify(body);
    document.getElementById(`field-${first}`)?.focus();
    return undefined;
  };
  const estimate = async () => {
    const body = checked();
    if (!body) return;
    try { setPrice(await askJson(`v1/models/${id}/estimate`, { method: "POST", body })); } catch (error) { setProblem(error.message); }
  };
  const call = async (event) => {
    event.preventDefault();
    const body = checked();
    if (!body) return;
    stop.current = new AbortController();
    const began = Date.now();
    setSince(began);
    setAnswer(null);
    try {
      const response = await ask(`v1/models/${id}`, { method: "POST", body, headers: { "Idempotency-Key": crypto.randomUUID() }, signal: stop.current.signal });
      const type = response.headers.get("Content-Type") ?? "";
      const made = { took: Date.now() - began, status: response.status };
      if (type.startsWith("image/")) made.picture = URL.createObjectURL(await response.blob());
      else {
        made.text = await response.text();
        try { made.json = JSON.parse(made.text); } catch { /* shown as text */ }
      }
      setAnswer(made);
    } catch (error) { if (error.name !== "AbortError") setProblem(error.message); }
    setSince(null);
  };
  const sample = collect(false)[0];
  return html`<main>
    <header class="top"><a class="back" href=${href(["models"])} aria-label="All models"><${Icon} name="back" /></a><h1><span class="muted">${provider} /</span> ${model}</h1><${Copy} text=${id} label="Copy the model's id" /></header>
    <${Instead} state=${state} what="models" />
    ${state.data && html`<div class="split">
      <form class="call" onSubmit=${call} novalidate><h2>Input</h2>
        ${authored ? fields.map((field) => html`<${Field} key=${field.name} field=${field} text=${texts[field.name] ?? ""} told=${told[field.name]} tell=${(words) => tellOf(field.name, words)}
            files=${picked[field.name] ?? []} pick=${(change) => pick(field.name, change)} set=${(text) => setTexts((before) => ({ ...before, [field.name]: text }))} />`)
          : html`<div class="field"><label for="field-">Body</label><textarea id="field-" class="code" rows="12" spellcheck="false" value=${raw} onInput=${(event) => setRaw(event.target.value)} /><p class="hint">This model has no schema: the body goes to it as it is.</p></div>`}
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
        <p role="status" class=${price ? "note" : "hidden"}>${price && priceOf(price)}</p>
        <div class="actions"><button type="button" onClick=${estimate}>Estimate</button>${since && html`<button type="button" onClick=${() => stop.current.abort()}>Stop waiting</button>`}<button class="primary" type="submit" disabled=${Boolean(since)}>${since ? "Calling …" : "Call"}</button></div></form>
      <div><${Tabs} label="The call as code" names=${[["curl", "curl"], ["python", "Python"], ["typescript", "TypeScript"]]} chosen=${language} choose=${choose}>
        <div class="code-box"><${Copy} text=${() => code(language, id, collect(false, "")[0])} label="Copy the code" /><pre tabindex="0">${code(language, id, sample)}</pre></div><//>
        <div aria-live="polite">${since && html`<p class="loading">The model works …</p>`}${answer && html`<${Answer} answer=${answer} />`}</div></div></div>`}
  </main>`;
}
