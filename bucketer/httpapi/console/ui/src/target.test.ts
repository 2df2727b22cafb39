import { expect, it } from 'vitest';
import { hostOf } from './target';

it.each([
  ['http://127.0.0.1:18081', '127.0.0.1:18081'],
  ['https://API.example.com/v1?x', 'api.example.com'],
  ['nats work.email', undefined],
])('the host of %s', (target, want) => {
  expect(hostOf(target)).toBe(want);
});
