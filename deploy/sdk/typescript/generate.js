// Writes the types of the API: what openapi-typescript makes of the operations that the package has methods for.
//
//     carillon openapi | node generate.js > src/schema.ts
//
// `make sdk-types` does that, and `make sdk-test` fails if the file is not what would be written. Errors are left out:
// they are all of one form (Problem), and thrown.
import openapiTS, { astToString } from "openapi-typescript";
import { text } from "node:stream/consumers";

const nouns = ["jobs", "runs", "tasks", "workflows", "events", "imports", "schedules"];
const kept = ["Problem", "Fault", "ImportResult", "ImportSummary"]; // that no operation names, or not as such

const document = JSON.parse(await text(process.stdin));
const paths = {};
for (const [path, operations] of Object.entries(document.paths)) {
  if (!nouns.includes(path.split("/")[2])) continue;
  paths[path] = operations;
  for (const operation of Object.values(operations)) {
    for (const status of Object.keys(operation.responses)) {
      if (!status.startsWith("2")) delete operation.responses[status];
    }
  }
}
const schemas = {};
const keep = (name) => {
  if (name in schemas) return;
  schemas[name] = document.components.schemas[name];
  visit(schemas[name]);
};
const visit = (part) => {
  if (Array.isArray(part)) part.forEach(visit);
  else if (part !== null && typeof part === "object") {
    if (typeof part.$ref === "string" && part.$ref.startsWith("#/components/schemas/")) keep(part.$ref.split("/").pop());
    delete part.examples;
    Object.values(part).forEach(visit);
  }
};
visit(paths);
kept.forEach(keep);
const sorted = Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
const ast = await openapiTS({ openapi: document.openapi, info: document.info, paths, components: { schemas: sorted } });
process.stdout.write("// Generated from the OpenAPI document by generate.js: not to be edited.\n\n" + astToString(ast));
