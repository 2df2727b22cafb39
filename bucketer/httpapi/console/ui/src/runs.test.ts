import { expect, it } from 'vitest';
import { failedAttempts } from './runs';

it('counts attempts that ended otherwise than well', () => {
  const attempts = ['failed', 'timed_out', 'lost', 'superseded', 'cancelled', 'succeeded', undefined].map((outcome, i) => ({ number: i + 1, outcome }));
  expect(failedAttempts({ attempts } as Parameters<typeof failedAttempts>[0])).toBe(3);
});
