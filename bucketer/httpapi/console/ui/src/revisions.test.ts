import { describe, expect, it } from 'vitest';
import { changesPayload, isOfSide, withPayload } from './revisions';

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

describe('changesPayload', () => {
  it.each([
    [{ payload: '9 bytes' }, { payload: '12 bytes' }, true],
    [{ payload: '9 bytes' }, { payload: '9 bytes, others than before' }, true],
    [{ payload: '9 bytes' }, {}, true],
    [{ payload: '9 bytes' }, { payload: '9 bytes' }, false],
    [{}, {}, false],
    [undefined, { payload: '9 bytes' }, false],
    ['too long to be k', { payload: '9 bytes' }, false],
  ])('%j to %j', (before, after, want) => {
    expect(changesPayload({ before, after })).toBe(want);
  });
});

describe('isOfSide', () => {
  it.each([
    [{ a: 1 }, { payload: '7 bytes' }, true],
    [{ a: 1 }, { payload: '7 bytes, others than before' }, true],
    [{ a: 12 }, { payload: '7 bytes' }, false],
    [undefined, {}, true],
    [undefined, { payload: '7 bytes' }, false],
    [{ a: 1 }, {}, false],
  ])('%j of %j', (payload, side, want) => {
    expect(isOfSide(payload, side)).toBe(want);
  });
});
