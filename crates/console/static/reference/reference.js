// The documents of the APIs of this server as pages: one operation or schema at a time, by the part of the address behind `#`.
// Texts of the documents become text nodes, never markup.

const METHODS = ["get", "head", "post", "put", "patch", "delete"];
// Deeper than any body of an example is worth reading.
const MOST_DEPTH = 6;

const main = document.querySelector("main");
const contents = document.querySelector(".contents");
const search = document.querySelector(".search input");
const found = document.querySelector("#found");
const links = [...document.querySelectorAll(".documents a")];

// --- Making elements ---

// An element with attributes and children; a child that is missing is left out.
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== ""));
  return element;
};
const code = (text) => make("code", {}, text);
// A text of a document: what is between backquotes is code.
const prose = (text) => (text ?? "").split(/(`[^`]+`)/).map((part) => (part.length > 2 && part.startsWith("`") && part.endsWith("`") ? code(part.slice(1, -1)) : part));
const paragraph = (text, name) => text && make("p", { class: name }, prose(text));
// Contents that are made when somebody opens them: a schema may hold itself.
const lazy = (attributes, summary, fill) => {
  const details = make("details", attributes, make("summary", {}, summary));
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(make("div", { class: "inside" }, fill())); });
  return details;
};

// --- Documents ---

const loaded = new Map();
const load = (link) => {
  if (!loaded.has(link.dataset.id)) {
    const reading = fetch(link.dataset.document, { headers: { Accept: "application/json" }, credentials: "omit" }).then((response) => {
      if (!response.ok) throw new Error(`The server answered ${response.status}.`);
      return response.json();
    });
    // Asked again at the next look.
    reading.catch(() => loaded.delete(link.dataset.id));
    loaded.set(link.dataset.id, reading);
  }
  return loaded.get(link.dataset.id);
};

const nameOf = (reference) => reference.split("/").pop().replaceAll("~1", "/").replaceAll("~0", "~");
const resolve = (doc, item) => {
  for (let steps = 0; item?.$ref && steps < 10; steps += 1) item = item.$ref.replace(/^#\//, "").split("/").reduce((at, part) => at?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], doc);
  return item ?? {};
};
const idOf = (method, path, operation) => operation.operationId ?? `${method} ${path}`;
// HEAD beside GET is told on the page of GET.
const operationsOf = (doc) => Object.entries(doc.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method] && !(method === "head" && item.get)).map((method) => ({
    id: idOf(method, path, item[method]), method, path, operation: item[method], shared: item.parameters ?? [], hasHead: method === "get" && Boolean(item.head),
  })));
const schemasOf = (doc) => Object.entries(doc.components?.schemas ?? {});

// --- The address ---

const parse = () => {
  const [id, kind, ...name] = location.hash.replace(/^#\/?/, "").split("/");
  return { id: id || links[0].dataset.id, kind, name: decodeURIComponent(name.join("/")) };
};
const href = (id, kind, name) => `#/${id}${kind ? `/${kind}/${encodeURIComponent(name)}` : ""}`;

// --- Schemas ---

const typeOf = (doc, id, schema) => {
  if (schema === true || schema === undefined) return ["anything"];
  if (schema.$ref) return [make("a", { href: href(id, "schema", nameOf(schema.$ref)) }, nameOf(schema.$ref))];
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.flatMap((one, n) => [n ? " or " : "", ...typeOf(doc, id, one)]);
  if (schema.allOf?.length === 1) return typeOf(doc, id, schema.allOf[0]);
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  const types = [schema.type ?? (schema.properties || schema.allOf ? "object" : schema.enum ? "one of" : "anything")].flat();
  const shown = types.flatMap((type, n) => [n ? " or " : "", type === "array" ? ["array of ", ...typeOf(doc, id, schema.items)] : type]).flat();
  return schema.format ? [...shown, ` (${schema.format})`] : shown;
};

const BOUNDS = [["minimum", "at least"], ["maximum", "at most"], ["minLength", "length at least"], ["maxLength", "length at most"], ["minItems", "items at least"], ["maxItems", "items at most"], ["maxProperties", "properties at most"], ["pattern", "pattern"], ["contentMediaType", "media type"]];
const boundsOf = (schema) => {
  const told = BOUNDS.filter(([key]) => schema[key] !== undefined).map(([key, words]) => `${words} ${schema[key]}`);
  if (schema.enum) told.push(`one of ${schema.enum.map((value) => JSON.stringify(value)).join(", ")}`);
  if (schema.default !== undefined) told.push(`default ${JSON.stringify(schema.default)}`);
  return told.length > 0 && make("div", { class: "bounds" }, told.join("; "));
};

// What an object is made of, with what its parts add.
const partsOf = (doc, schema) => {
  const whole = resolve(doc, schema);
  const parts = (whole.allOf ?? []).map((part) => partsOf(doc, part));
  return {
    properties: Object.assign({}, ...parts.map((part) => part.properties), whole.properties),
    required: [...parts.flatMap((part) => part.required), ...(whole.required ?? [])],
    others: whole.additionalProperties ?? parts.find((part) => part.others !== undefined)?.others,
  };
};
// Whether a look inside tells more than the type does.
const inner = (doc, schema) => {
  if (!schema || schema === true) return undefined;
  const whole = resolve(doc, schema);
  if (whole.properties || whole.allOf || typeof whole.additionalProperties === "object" || whole.oneOf || whole.anyOf) return whole;
  return whole.items ? inner(doc, whole.items) : whole.enum && schema.$ref ? whole : undefined;
};

const field = (doc, id, name, schema, needed, description) => {
  const own = schema === true ? {} : schema ?? {};
  const inside = inner(doc, own);
  return make("li", {},
    make("div", { class: "field" }, code(name), make("span", { class: "type" }, typeOf(doc, id, own)), needed && make("span", { class: "needed" }, "required"), own.writeOnly && make("span", { class: "type" }, "only sent"), own.readOnly && make("span", { class: "type" }, "only answered")),
    paragraph(description ?? own.description), boundsOf(own),
    inside && lazy({ class: "more" }, ["Inside ", code(name)], () => shape(doc, id, inside)));
};

// A schema as it is read: what it says of itself, its alternatives, its fields.
const shape = (doc, id, schema) => {
  const whole = resolve(doc, schema);
  const { properties, required, others } = partsOf(doc, whole);
  const rows = Object.entries(properties).map(([name, one]) => field(doc, id, name, one, required.includes(name)));
  if (others && typeof others === "object") rows.push(field(doc, id, "any other name", others, false));
  const several = whole.oneOf ?? whole.anyOf;
  return [
    paragraph(whole.description, "lead"),
    boundsOf(whole),
    several && make("ul", { class: "box" }, several.map((one, n) => field(doc, id, one.title ?? (one.$ref ? nameOf(one.$ref) : `alternative ${n + 1}`), one, false))),
    rows.length > 0 && make("ul", { class: "box" }, rows),
    !several && rows.length === 0 && make("p", { class: "type" }, typeOf(doc, id, schema)),
  ];
};

// A value that fits a schema, as far as the document tells.
const example = (doc, schema, depth = 0) => {
  const own = schema === true ? {} : resolve(doc, schema);
  if (own.examples?.length) return own.examples[0];
  for (const key of ["example", "const", "default"]) if (own[key] !== undefined) return own[key];
  if (own.enum) return own.enum[0];
  const several = own.oneOf ?? own.anyOf;
  if (several) return example(doc, several[0], depth + 1);
  const { properties, required } = partsOf(doc, own);
  const type = [own.type].flat().find((it) => it !== "null") ?? (Object.keys(properties).length || own.allOf ? "object" : undefined);
  if (type === "object") {
    const names = Object.keys(properties).filter((name) => required.includes(name));
    return depth >= MOST_DEPTH ? {} : Object.fromEntries(names.map((name) => [name, example(doc, properties[name], depth + 1)]));
  }
  if (type === "array") return own.minItems && depth < MOST_DEPTH ? [example(doc, own.items, depth + 1)] : [];
  return { integer: own.minimum ?? 1, number: own.minimum ?? 1, boolean: false, string: own.format === "uuid" ? "00000000-0000-4000-8000-000000000000" : "text" }[type] ?? {};
};

// --- Code ---

const box = (text, label) => {
  const pre = make("pre", { tabindex: 0, "aria-label": label }, text);
  const button = make("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without TLS a browser lets no page write there: the text is selected, to be copied by hand.
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected";
    }
  } }, "Copy");
  return make("div", { class: "code" }, pre, button);
};

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
// The call by curl, with what the document says of its body.
const curl = (doc, { method, path, operation, shared }) => {
  const parameters = [...shared, ...(operation.parameters ?? [])].map((one) => resolve(doc, one));
  const asked = parameters.filter((one) => one.required && one.in === "query").map((one) => `${one.name}=${encodeURIComponent(String(example(doc, one.schema)))}`);
  const base = new URL("..", document.baseURI).href.replace(/\/$/, "");
  const lines = [`curl ${method === "get" ? "" : method === "head" ? "-I " : `-X ${method.toUpperCase()} `}${quoted(`${base}${path}${asked.length ? `?${asked.join("&")}` : ""}`)}`];
  if (keyed(doc, operation)) lines.push(`-H 'Authorization: Bearer KEY'`);
  for (const one of parameters.filter((one) => one.required && one.in === "header")) lines.push(`-H ${quoted(`${one.name}: ${example(doc, one.schema)}`)}`);
  const [type, media] = Object.entries(resolve(doc, operation.requestBody).content ?? {})[0] ?? [];
  if (type === "multipart/form-data") {
    const { properties, required } = partsOf(doc, media.schema);
    const files = Object.entries(properties).filter(([name, one]) => required.includes(name) || resolve(doc, one).contentMediaType);
    lines.push(...files.map(([name, one]) => `-F ${quoted(`${name}=${resolve(doc, one).contentMediaType || resolve(doc, one).format === "binary" ? "@file" : String(example(doc, one))}`)}`));
  } else if (type === "application/json") {
    const given = media.example ?? Object.values(media.examples ?? {})[0]?.value ?? example(doc, media.schema);
    lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(given, null, 2))}`);
  } else if (type) {
    lines.push(`-H ${quoted(`Content-Type: ${type}`)}`, `--data-binary @file`);
  }
  return lines.join(" \\\n  ");
};

// --- Pages ---

const schemes = (doc, operation) => operation.security ?? doc.security ?? [];
const keyed = (doc, operation) => schemes(doc, operation).some((one) => Object.keys(one).length > 0);
const credentials = (doc, operation) => {
  const ways = schemes(doc, operation).flatMap((one) => Object.keys(one));
  if (!ways.length) return "It needs no credential.";
  const open = schemes(doc, operation).some((one) => !Object.keys(one).length);
  const words = ways.map((way) => {
    const { type, in: place, name } = doc.components.securitySchemes[way];
    return type === "http" ? "`Authorization: Bearer`" : place === "cookie" ? `the cookie \`${name}\`` : `\`${name}\``;
  });
  return `Credential: ${words.join(" or ")}${open ? "; none where the operator asks for none" : ""}.`;
};

const content = (doc, id, media) => Object.entries(media ?? {}).flatMap(([type, { schema, examples }]) => [
  make("h3", {}, code(type), " ", schema && Object.keys(schema).length > 0 && make("span", { class: "type" }, typeOf(doc, id, schema))),
  schema && inner(doc, schema) && shape(doc, id, schema),
  Object.entries(examples ?? {}).map(([name, one]) => lazy({ class: "more" }, `Example: ${one.summary ?? name}`, () => box(typeof one.value === "string" ? one.value : JSON.stringify(one.value, null, 2), `Example ${name}`))),
]);

const operationPage = (doc, id, item) => {
  const { method, path, operation, shared, hasHead } = item;
  const parameters = [...shared, ...(operation.parameters ?? [])].map((one) => resolve(doc, one));
  const body = operation.requestBody && resolve(doc, operation.requestBody);
  return [
    make("h1", { tabindex: -1 }, operation.summary ?? `${method.toUpperCase()} ${path}`),
    make("div", { class: "place" }, make("span", { class: `method ${method}` }, method), code(path)),
    operation.deprecated && paragraph("Deprecated.", "lead"),
    paragraph(operation.description, "lead"),
    make("p", { class: "lead muted" }, prose(credentials(doc, operation)), hasHead && [" ", ...prose("`HEAD` gets the same answer without its body.")]),
    ["path", "query", "header", "cookie"].map((place) => {
      const here = parameters.filter((one) => one.in === place);
      return here.length > 0 && [make("h2", {}, { path: "Path", query: "Query", header: "Headers", cookie: "Cookies" }[place]),
        make("ul", { class: "box" }, here.map((one) => field(doc, id, one.name, one.schema, one.required, one.description)))];
    }),
    body && [make("h2", {}, "Body", body.required ? "" : " (optional)"), paragraph(body.description), content(doc, id, body.content)],
    make("h2", {}, "By curl"), box(curl(doc, item), "The call by curl"),
    make("h2", {}, "Answers"),
    make("div", { class: "box" }, Object.entries(operation.responses ?? {}).map(([status, one]) => {
      const response = resolve(doc, one);
      return lazy({}, [make("span", { class: "status" }, status), prose(response.description)], () => [
        Object.keys(response.headers ?? {}).length > 0 && [make("h3", {}, "Headers"), make("ul", { class: "box" }, Object.entries(response.headers).map(([name, header]) => {
          const whole = resolve(doc, header);
          return field(doc, id, name, whole.schema, whole.required, whole.description);
        }))],
        content(doc, id, response.content),
        !response.content && make("p", { class: "muted" }, "No body."),
      ]);
    })),
  ];
};

const schemaPage = (doc, id, name, schema) => [
  make("h1", { tabindex: -1 }, name),
  shape(doc, id, schema),
  make("h2", {}, "Example"), box(JSON.stringify(example(doc, schema), null, 2), `Example of ${name}`),
];

const overview = (doc, id, link) => {
  const operations = operationsOf(doc);
  return [
    make("h1", { tabindex: -1 }, doc.info.title),
    make("p", { class: "muted" }, `Version ${doc.info.version}, OpenAPI ${doc.openapi}. `, make("a", { href: link.dataset.document }, "The document as JSON")),
    paragraph(doc.info.description, "lead"),
    make("h2", {}, "Credentials"),
    make("ul", { class: "box" }, Object.values(doc.components?.securitySchemes ?? {}).map((one) => make("li", {}, code(one.type === "http" ? "Authorization: Bearer …" : one.in === "cookie" ? `Cookie: ${one.name}=…` : `${one.name}: …`), paragraph(one.description)))),
    groupsOf(doc, operations).map(([tag, items]) => [make("h2", {}, tag), paragraph(doc.tags?.find((it) => it.name === tag)?.description),
      make("ul", { class: "box" }, items.map((item) => make("li", { class: "field" }, make("span", { class: `method ${item.method}` }, item.method), make("a", { href: href(id, "op", item.id) }, item.operation.summary ?? item.path), make("span", { class: "type" }, item.path))))]),
  ];
};

// Operations by their first tag, in the order of the document's tags.
const groupsOf = (doc, operations) => {
  const tags = new Map((doc.tags ?? []).map((tag) => [tag.name, []]));
  for (const item of operations) {
    const tag = item.operation.tags?.[0] ?? "operations";
    if (!tags.has(tag)) tags.set(tag, []);
    tags.get(tag).push(item);
  }
  return [...tags].filter(([, items]) => items.length > 0);
};

const list = (doc, route) => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (...texts) => words.every((word) => texts.some((text) => text?.toLowerCase().includes(word)));
  const entry = (kind, name, ...children) => make("li", {}, make("a", { href: href(route.id, kind, name), "aria-current": route.kind === kind && route.name === name && "page" }, children));
  const operations = operationsOf(doc).filter((item) => fits(item.operation.summary, item.path, item.method, item.id));
  const schemas = schemasOf(doc).filter(([name]) => fits(name));
  const parts = groupsOf(doc, operations).map(([tag, items]) => [make("h2", {}, tag),
    make("ul", {}, items.map((item) => entry("op", item.id, make("span", { class: `method ${item.method}` }, item.method), make("span", { class: "name" }, item.operation.summary ?? item.path))))]);
  if (schemas.length) parts.push([make("h2", {}, "schemas"), make("ul", {}, schemas.map(([name]) => entry("schema", name, make("span", { class: "name" }, name))))]);
  contents.replaceChildren(...parts.flat());
  if (!parts.length) contents.append(make("p", { class: "muted" }, "Nothing has these words."));
  found.textContent = words.length ? `${operations.length} operations and ${schemas.length} schemas` : "";
};

const page = (doc, route, link) => {
  if (route.kind === "op") {
    const item = operationsOf(doc).find((one) => one.id === route.name);
    if (item) return operationPage(doc, route.id, item);
  } else if (route.kind === "schema" && doc.components?.schemas?.[route.name]) {
    return schemaPage(doc, route.id, route.name, doc.components.schemas[route.name]);
  } else if (!route.kind) {
    return overview(doc, route.id, link);
  }
  return [make("h1", { tabindex: -1 }, "Not in this document"), make("p", {}, make("a", { href: href(route.id) }, "All of it"))];
};

let shown;
const show = async (moved) => {
  const route = parse();
  const link = links.find((one) => one.dataset.id === route.id) ?? links[0];
  route.id = link.dataset.id;
  for (const one of links) one.toggleAttribute("aria-current", false);
  link.setAttribute("aria-current", "true");
  const turn = (shown = {});
  try {
    const doc = await load(link);
    if (shown !== turn) return;
    list(doc, route);
    const parts = page(doc, route, link).flat(Infinity).filter((part) => part);
    main.replaceChildren(...parts);
  } catch (error) {
    if (shown !== turn) return;
    contents.replaceChildren();
    main.replaceChildren(make("p", { class: "problem", role: "alert" }, `The document cannot be read: ${error.message}`, make("button", { type: "button", onclick: () => show(false) }, "Try again")));
    return;
  }
  const heading = main.querySelector("h1");
  document.title = `${heading.textContent} · Easel`;
  contents.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  if (moved) {
    scrollTo(0, 0);
    // A screen reader hears of the new page; a list that somebody walks through keeps its place.
    if (!contents.contains(document.activeElement)) heading.focus();
  }
};

// --- Keys ---

addEventListener("hashchange", () => { if (location.hash !== "#content") show(true); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
search.addEventListener("input", async () => {
  const route = parse();
  const link = links.find((one) => one.dataset.id === route.id) ?? links[0];
  list(await load(link), { ...route, id: link.dataset.id });
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const entries = [...contents.querySelectorAll("a")];
  const at = entries.indexOf(document.activeElement);
  const inSearch = document.activeElement === search;
  if (event.key === "/" && !inSearch) search.focus();
  else if (event.key === "Escape" && inSearch) { search.value = ""; search.dispatchEvent(new Event("input")); }
  else if (event.key === "Enter" && inSearch) entries[0]?.click();
  else if (event.key === "ArrowDown" && (inSearch || at >= 0)) entries[at + 1]?.focus();
  else if (event.key === "ArrowUp" && at >= 0) (entries[at - 1] ?? search).focus();
  else return;
  event.preventDefault();
});

show(false);
