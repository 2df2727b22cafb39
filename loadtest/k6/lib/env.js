// What a run is told by its environment. README.md lists all of it.

// number reads a variable that must be a number above 0; without it, otherwise.
export function number(name, otherwise) {
  const text = __ENV[name];
  if (text === undefined || text === '') return otherwise;
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name}=${text}: not a number above 0`);
  return value;
}

// seconds reads a variable such as 90s, 5m or 1h; without it, otherwise (in seconds).
export function seconds(name, otherwise) {
  const text = __ENV[name];
  if (text === undefined || text === '') return otherwise;
  const parts = /^(\d+)([smh])$/.exec(text);
  if (!parts) throw new Error(`${name}=${text}: not a whole number of s, m or h`);
  return Number(parts[1]) * { s: 1, m: 60, h: 3600 }[parts[2]];
}

// The base URLs of the nodes. Calls are spread over all of them, and the metrics of all are added up, so every node
// of the cluster must be named.
export const nodes = (__ENV.API || 'http://127.0.0.1:8080').split(',').map((url) => url.trim().replace(/\/$/, ''));

// Where runs call: the base URL of a `carillon-load sink`, or else the /healthz of the first node.
export const sink = (__ENV.SINK || '').replace(/\/$/, '');

// The headers that say who calls.
export const identity = {};
if (__ENV.CARILLON_TOKEN) identity.Authorization = `Bearer ${__ENV.CARILLON_TOKEN}`;
if (__ENV.TENANT) identity['Carillon-Tenant'] = __ENV.TENANT;
