// Revisions of a job out of the audit log, which keeps the size of a payload alone. Pure.

interface Sides {
  before?: unknown;
  after?: unknown;
}

type Spec = { payload?: unknown };

function specOf(side: unknown): Spec | undefined {
  return typeof side === 'object' && side !== null ? side : undefined;
}

/** Whether a revision has another payload than what was before it. */
export function changesPayload({ before, after }: Sides): boolean {
  const [was, is] = [specOf(before)?.payload, specOf(after)?.payload];
  return specOf(before) !== undefined && specOf(after) !== undefined && was !== is;
}

/** A side without its payload, where that is shown by itself. */
export function withoutPayload(side: unknown): unknown {
  const spec = specOf(side);
  return spec === undefined ? side : { ...spec, payload: undefined };
}

/** Whether a payload may be the one of a side, whose size the audit log has. */
export function isOfSide(payload: unknown, side: unknown): boolean {
  const said = specOf(side)?.payload;
  return payload === undefined ? said === undefined : typeof said === 'string' && said.split(',', 1)[0] === sizeOf(payload);
}

/** How the audit log writes the size of a payload. */
function sizeOf(payload: unknown): string {
  return `${new TextEncoder().encode(JSON.stringify(payload)).length} bytes`;
}

/** Longer payloads stay sizes, in characters. */
const longest = 4000;

/**
 * The revisions, the latest first, with the payload where it is known: it is the job's of now, as far back
 * as no revision says that it was another one.
 */
export function withPayload<T extends Sides>(revisions: readonly T[], payload: unknown): T[] {
  const text = payload === undefined ? '' : JSON.stringify(payload);
  let known: string | undefined = text === '' || text.length > longest ? undefined : sizeOf(payload);
  return revisions.map((revision) => {
    const after = specOf(revision.after);
    if (known === undefined || after === undefined) {
      return revision; // it was paused, say
    }
    const [before, size] = [specOf(revision.before), String(after.payload)];
    if (size.split(',', 1)[0] !== known) {
      known = undefined;
      return revision;
    }
    const same = before?.payload === size;
    if (!same) {
      known = undefined;
    }
    return { ...revision, after: { ...after, payload }, ...(same ? { before: { ...before, payload } } : {}) };
  });
}
