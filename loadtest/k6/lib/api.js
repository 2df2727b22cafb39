// Calls of the API, counted. A call ends in one of three ways: as wanted; refused with 429, which is back-pressure and
// no error; or else as an error, a cut or lost answer included.

import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate } from 'k6/metrics';

import { identity, nodes } from './env.js';

export const errors = new Rate('errors'); // of calls
export const backPressure = new Rate('back_pressure'); // of calls: answered 429, or with lines that were
export const accepted = new Counter('jobs_accepted'); // made anew: answered 201
const linesRefused = new Counter('import_lines_refused'); // answered 429
const linesFailed = new Counter('import_lines_failed'); // answered anything else but 200 and 201

const broken = new Counter('iterations_broken'); // by an exception, for which alone k6 fails no run

const callTimeout = '20s'; // the server gives up after 15 s
const importTimeout = '2m';
const complaintsOfAVU = 3;

let complaints = 0;

// whole returns the function of an iteration so that it is counted when it throws.
export function whole(iteration) {
  return (data) => {
    try {
      iteration(data);
    } catch (err) {
      broken.add(1);
      throw err;
    }
  };
}

// complain says what went wrong, a few times.
function complain(what, detail) {
  if (complaints++ < complaintsOfAVU) console.error(`${what}: ${String(detail).slice(0, 300)}`);
}

const expected = new Map();

// expecting is what makes k6 tag an answer as expected if it has one of the statuses.
function expecting(statuses) {
  const key = statuses.join();
  if (!expected.has(key)) expected.set(key, http.expectedStatuses(...statuses));
  return expected.get(key);
}

// call makes a request under the name op. Statuses in wanted are no errors. The answer has res, k6's response, with its
// status beside; fine, if it is as wanted; and refused, if it is 429.
function call(op, method, path, body, wanted, { type = 'application/json', headers = {}, timeout = callTimeout } = {}) {
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  const res = http.request(method, node + path, body, {
    headers: { ...identity, ...(body === null ? {} : { 'Content-Type': type }), ...headers },
    tags: { op, name: op }, // a name without ids, or each job would be a time series of its own
    responseCallback: expecting(wanted),
    timeout,
  });
  return { res, status: res.status, fine: wanted.includes(res.status), refused: res.status === 429 };
}

// count counts an answer that needs no further look, and returns it.
function count(op, answer) {
  const { res, fine, refused } = answer;
  backPressure.add(refused, { op });
  errors.add(!fine && !refused, { op });
  if (refused) check(res, { '429 says when to come again': (r) => Number(r.headers['Retry-After']) > 0 });
  else if (!fine) complain(`${op}: ${res.status || res.error}`, res.body);
  return answer;
}

// create makes one job. The answer has job and replayed, if it was made.
export function create(job, { op = 'create', key = '' } = {}) {
  const headers = key ? { 'Idempotency-Key': key } : {};
  const answer = count(op, call(op, 'POST', '/v1/jobs', JSON.stringify(job), [201], { headers }));
  if (answer.fine) {
    answer.job = answer.res.json();
    answer.replayed = answer.res.headers['Idempotency-Replayed'] === 'true';
    if (!answer.replayed) accepted.add(1);
    check(answer.job, {
      'created: has an id': (made) => typeof made.id === 'string' && made.id.length === 36,
      'created: is due when it was asked for': (made) => !job.schedule || made.schedule.at === job.schedule.at,
    });
  }
  return answer;
}

// read reads a job or a run (kind jobs or runs).
export function read(kind, id) {
  return count(`read ${kind}`, call(`read ${kind}`, 'GET', `/v1/${kind}/${id}`, null, [200]));
}

// list reads the runs due in [from, to), dates, page by page, and returns all of them; null if a page failed.
// At most maxPages are read.
export function list(from, to, { limit = 100, maxPages = 1000 } = {}) {
  const query = `/v1/runs?from=${from.toISOString()}&to=${to.toISOString()}&limit=${limit}`;
  const items = [];
  for (let cursor = '', page = 0; page < maxPages; page++) {
    const more = cursor && `&cursor=${encodeURIComponent(cursor)}`;
    const { fine, res } = count('list', call('list', 'GET', query + more, null, [200]));
    if (!fine) return null;
    const body = res.json();
    for (const item of body.items) items.push(item);
    cursor = body.next_cursor;
    if (!cursor) break;
  }
  return items;
}

// cancel cancels a job. 409: it has ended before.
export function cancel(id) {
  return count('cancel', call('cancel', 'DELETE', `/v1/jobs/${id}`, null, [200, 409]));
}

// reschedule moves a job to another instant, a date. 409: it has started, ended or been cancelled before.
export function reschedule(id, at) {
  const patch = JSON.stringify({ schedule: { at: at.toISOString() } });
  const type = 'application/merge-patch+json';
  return count('reschedule', call('reschedule', 'PATCH', `/v1/jobs/${id}`, patch, [200, 409], { type }));
}

// importLines sends n lines of NDJSON. It returns the summary and how many lines were refused; null if the whole import
// was refused or its answer was cut.
export function importLines(text, n, op = 'import') {
  const answer = call(op, 'POST', '/v1/imports?results=errors', text, [200], {
    type: 'application/x-ndjson', timeout: importTimeout,
  });
  if (!answer.fine) {
    count(op, answer);
    return null;
  }
  const lines = String(answer.res.body).trim().split('\n');
  const { summary } = parse(lines.pop());
  if (!summary) {
    errors.add(true, { op });
    backPressure.add(false, { op });
    complain(`${op}: an answer without summary`, answer.res.body);
    return null;
  }
  const failed = lines.map(parse);
  const refused = failed.filter((line) => line.status === 429).length;
  linesRefused.add(refused);
  linesFailed.add(failed.length - refused);
  accepted.add(summary.created);
  backPressure.add(refused > 0, { op });
  errors.add(failed.length > refused, { op });
  const bad = failed.find((line) => line.status !== 429);
  if (bad) complain(`${op}: a line failed`, JSON.stringify(bad));
  check(summary, {
    'imported: every line is in the summary': (s) => s.lines === n && s.created + s.existing + s.failed === n,
    'imported: every failed line is told': (s) => s.failed === failed.length,
  });
  return { ...summary, refused };
}

// parse reads a line of an answer; one that was cut is nothing.
function parse(line) {
  try {
    return JSON.parse(line) || {};
  } catch (_) {
    return {};
  }
}
