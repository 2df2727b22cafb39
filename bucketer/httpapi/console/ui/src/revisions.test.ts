import { describe, expect, it } from 'vitest';
import { withPayload } from './revisions';

describe('revisions of a job', () => {
  const now = { customer: 17 };
  const size = '15 bytes';
  const update = (before: string, after: string) => ({ before: { payload: before, n: 1 }, after: { payload: after, n: 2 } });

  it('have the payload as far back as it is that of now', () => {
    const [pause, second, first, create] = withPayload<{ before?: unknown; after?: unknown }>(
      [{}, update(size, size), update('3 bytes', size), { after: { payload: '3 bytes' } }],
      now,
    );
    expect(pause).toEqual({});
    expect(second).toEqual({ before: { payload: now, n: 1 }, after: { payload: now, n: 2 } });
    expect(first).toEqual({ before: { payload: '3 bytes', n: 1 }, after: { payload: now, n: 2 } });
    expect(create).toEqual({ after: { payload: '3 bytes' } });
  });

  it('keep the size of what is not known', () => {
    const others = [update(size, `${size}, others than before`), { after: { payload: size } }];
    expect(withPayload(others, now)).toEqual([
      { before: { payload: size, n: 1 }, after: { payload: now, n: 2 } },
      { after: { payload: size } },
    ]);
    for (const payload of [undefined, { customer: 1 }, 'x'.repeat(5000)]) {
      expect(withPayload([update(size, size)], payload)).toEqual([update(size, size)]);
    }
    expect(withPayload([{ before: 'cut…', after: 'cut…' }], now)).toEqual([{ before: 'cut…', after: 'cut…' }]);
  });
});
