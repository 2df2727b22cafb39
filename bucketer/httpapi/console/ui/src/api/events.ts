// Publishes events. Their bodies go as they were typed: numbers stay what they are to the last digit.

import { pathTo } from '../place';
import { ask } from './client';

/** Publishes an event whose body is JSON; an empty text is null. */
export function publishEvent(name: string, body: string, key: string): Promise<{ id: string }> {
  return ask(pathTo('/v1/events/:name', { name }), {
    method: 'POST',
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
    content: body.trim() === '' ? 'null' : body,
  });
}
