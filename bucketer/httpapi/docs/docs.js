// Shows /openapi.json. Everything is made as text nodes: nothing of the document becomes markup.
"use strict";

const el = (name, props, ...children) => {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
};

const refName = (s) => (s && s.$ref ? s.$ref.split("/").pop() : null);

// typeOf returns what a schema says in a few words, with a link to a named one.
const typeOf = (s) => {
  if (!s) return "";
  const name = refName(s);
  if (name) return el("a", { href: "#schema-" + name }, name);
  if (s.type === "array" || (Array.isArray(s.type) && s.type.includes("array"))) return el("span", {}, "array of ", typeOf(s.items));
  const type = Array.isArray(s.type) ? s.type.join(" or ") : s.type || "any";
  const words = s.enum ? ": " + s.enum.join(", ") : "";
  const range = [s.minimum !== undefined ? "from " + s.minimum : "", s.maximum !== undefined ? "to " + s.maximum : ""].filter(Boolean).join(" ");
  return [type + words, s.format, range].filter(Boolean).join(", ");
};

const table = (head, rows) =>
  el("table", {}, el("tr", {}, ...head.map((h) => el("th", {}, h))), ...rows.map((r) => el("tr", {}, ...r.map((c) => el("td", {}, c ?? "")))));

const operation = (method, path, op) => {
  const parts = [];
  if (op.description) parts.push(el("p", {}, op.description));
  if (op.parameters?.length) {
    parts.push(table(["Parameter", "In", "Type", ""], op.parameters.map((p) => [el("code", {}, p.name), p.in, typeOf(p.schema), p.description])));
  }
  for (const [media, m] of Object.entries(op.requestBody?.content ?? {})) {
    parts.push(el("p", {}, "Body ", el("code", {}, media), ": ", typeOf(m.schema)));
  }
  parts.push(table(["Status", "", "Body"], Object.entries(op.responses ?? {}).map(([status, r]) => {
    const [media, m] = Object.entries(r.content ?? {})[0] ?? [];
    return [status, r.description, media ? el("span", {}, el("code", {}, media), " ", typeOf(m.schema)) : ""];
  })));
  return el("details", { id: op.operationId },
    el("summary", {}, el("span", { className: "method" }, method.toUpperCase()), el("code", {}, path), " ", op.summary ?? ""), ...parts);
};

const show = (doc) => {
  document.getElementById("version").textContent = doc.info.version;
  document.getElementById("about").textContent = doc.info.description;
  const operations = document.getElementById("operations");
  for (const path of Object.keys(doc.paths).sort()) {
    for (const method of ["get", "post", "put", "patch", "delete"]) {
      if (doc.paths[path][method]) operations.append(operation(method, path, doc.paths[path][method]));
    }
  }
  const schemas = document.getElementById("schemas");
  for (const [name, s] of Object.entries(doc.components.schemas).sort()) {
    const required = new Set(s.required ?? []);
    schemas.append(el("details", { id: "schema-" + name }, el("summary", {}, el("code", {}, name), " ", s.description ?? ""),
      table(["Field", "Type", ""], Object.entries(s.properties ?? {}).map(([f, p]) =>
        [el("code", {}, f + (required.has(f) ? " *" : "")), typeOf(p), p.description]))));
  }
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
};

fetch("/openapi.json")
  .then((r) => (r.ok ? r.json() : Promise.reject(new Error("status " + r.status))))
  .then(show)
  .catch((err) => { document.getElementById("about").textContent = "The document could not be loaded: " + err.message; });
