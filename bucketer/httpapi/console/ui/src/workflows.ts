// Workflows as one asks for them. Pure.

import { itemsOf, memberOf, toJson, type Entry, type MapPart, type Part } from './document';
import { messageKinds } from './target';

/** The fields of a workflow that one may ask for, in the order in which a person writes them. */
const asked = [
  'name',
  'labels',
  'schedule',
  'on',
  'start',
  'end',
  'max_runs',
  'jitter',
  'concurrency',
  'misfire',
  'priority',
  'deadline',
  'payload',
  'steps',
] as const;

/** The same of a step. */
const stepFields = [
  'name',
  'after',
  'when',
  'if',
  'task',
  'workflow',
  'wait',
  'for_each',
  'http',
  'nats',
  'script',
  'lambda',
  ...messageKinds,
  'payload',
  'priority',
  'timeout',
  'retry',
  'guarantee',
  'deadline',
] as const;

/** What stands for itself where nothing is said. */
const usual: Record<string, Record<string, string>> = {
  workflow: { priority: '"normal"', deadline: '"168h0m0s"' },
  schedule: { gap: '"run"', overlap_hour: '"first"' },
  misfire: { policy: '"run_latest"' },
  concurrency: { on_limit: '"queue"' },
  step: { when: '"all_succeeded"', timeout: '"30s"', guarantee: '"at_least_once"' },
  http: { method: '"POST"', body: '"payload"' },
  retry: { max_attempts: '5', initial: '"1s"', factor: '2', max: '"10m0s"', jitter: '"full"' },
};

/** The members of those names, in their order, less those that are empty. A payload may be empty. */
function chosen(part: Part, names: readonly string[], kind: string): MapPart {
  const entries: Entry[] = [];
  for (const name of names) {
    const value = memberOf(part, name);
    if (!value) {
      continue;
    }
    // A step's workflow is a name, and not one of those whose fields are chosen from.
    const plain = usual[name] && value.kind === 'map' ? chosen(value, value.entries.map((e) => e.key), name) : value;
    const json = toJson(plain);
    if (name === 'payload' || (!['""', '{}', '[]', 'null'].includes(json) && usual[kind]?.[name] !== json)) {
      entries.push({ key: name, value: plain, start: 0, end: 0 });
    }
  }
  return { kind: 'map', entries, start: 0, end: 0 };
}

/** A workflow as the API answers it, as one would ask for it. What only repeats a default is left out. */
export function requestOf(workflow: Part): MapPart {
  const out = chosen(workflow, asked, 'workflow');
  for (const entry of out.entries) {
    if (entry.key === 'steps') {
      const items = itemsOf(entry.value).map((step) => chosen(step, stepFields, 'step'));
      entry.value = { kind: 'list', items, start: 0, end: 0 };
    }
  }
  return out;
}

/** What a new workflow begins as. */
export const firstWorkflow = `# Each night: extract, then load each file on its own. Somebody is told if that fails.
name: nightly-load
schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}
deadline: 3h

steps:
  - name: extract
    http: {url: https://example.com/extract}

  - name: load # a run for each file that extract answers with, four at a time
    after: [extract]
    for_each: {from: extract, pointer: /files, max_concurrent: 4}
    http: {url: https://example.com/load}
    payload: {file: {$item: ""}}

  - name: alert
    after: [load]
    when: any_failed
    http: {url: https://example.com/alert}
`;
