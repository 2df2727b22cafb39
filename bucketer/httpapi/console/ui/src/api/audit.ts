// Looks for one entry of the audit log. It is written a moment after what it tells of.

import { useState } from 'preact/hooks';
import { serverNow } from '../clock';
import { steady, useLive } from './live';
import { gather, type PageLike } from './pages';
import { ask } from './client';
import { maySee } from './session';
import type { AuditEntry } from './types';

/** How long an entry may take to be in the log, in ms. */
const written = 60_000;

/**
 * The entry about an object that is `wanted`, of what was done between two instants. Null: there is
 * none; undefined: it is not known, or the person may not see the log.
 */
export function useAuditEntry(
  key: string,
  about: { object: string; from: number; to: number },
  wanted: (entry: AuditEntry) => boolean,
): AuditEntry | null | undefined {
  const [found, setFound] = useState(false);
  const young = !found && serverNow() - about.to < written;
  const live = useLive(
    maySee('admin') ? key : null,
    async (signal) => {
      const query = { object: about.object, from: new Date(about.from).toISOString(), to: new Date(about.to).toISOString(), limit: 500 };
      const page = await gather((cursor) => ask<PageLike<AuditEntry>>('/v1/audit', { query: { ...query, cursor }, signal }), '', 500, 2);
      const entry = page.items.find(wanted) ?? null;
      setFound(entry !== null);
      return entry;
    },
    { every: young ? steady : 0 },
  );
  return live.data;
}
