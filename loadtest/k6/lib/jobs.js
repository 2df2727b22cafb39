// The jobs that are made: HTTP calls with a payload of about 200 bytes.

import { nodes, sink } from './env.js';

const padding = 'x'.repeat(150);

// A name for this run, so that its jobs can be told from others, and its keys are its own. Each VU has its own copy of
// this module, so setup hands the name on.
export function makeRunName() {
  return `k6-${Date.now().toString(36)}-${Math.floor(Math.random() * 1e6).toString(36)}`;
}

function target(ref) {
  return sink ? { url: `${sink}/${ref}` } : { url: `${nodes[0]}/healthz`, method: 'GET' };
}

// jobAt is a job due at a date; without one, now. ref is in its address and payload.
export function jobAt(at, ref) {
  const job = { http: target(ref), payload: { ref, pad: padding } };
  if (at) job.schedule = { at: at.toISOString() };
  return job;
}

// after returns the date so many ms from now.
export function after(ms) {
  return new Date(Date.now() + Math.round(ms));
}

// between returns a number from low to below high.
export function between(low, high) {
  return low + Math.random() * (high - low);
}

const second = '@second@'; // stands for the instant's second, up to the point
const serial = '@serial@'; // stands for what tells this chunk from others

// A Chunk is the text of a number of import lines, made once and then filled in by replacing, which costs little: a
// load generator that is busy making text measures itself.
export class Chunk {
  // The lines are due at offsets (in ms, below 1000) into a second. With keyed each line has a key.
  constructor(offsets, { keyed = false } = {}) {
    this.length = offsets.length;
    this.template = offsets
      .map((offset, i) => {
        const ref = `${serial}/${i}`;
        const line = { ...(keyed ? { key: ref } : {}), ...jobAt(null, ref) };
        line.schedule = { at: `${second}.${String(offset).padStart(3, '0')}Z` };
        return `${JSON.stringify(line)}\n`;
      })
      .join('');
  }

  // text returns the lines, due within the second of a date, with a name that no other chunk has.
  text(date, name) {
    return this.template.replaceAll(second, date.toISOString().slice(0, 19)).replaceAll(serial, name);
  }
}

// evenly returns n offsets spread over a second, in ms.
export function evenly(n, from = 0, of = n) {
  return Array.from({ length: n }, (_, i) => Math.floor(((from + i) * 1000) / of));
}
