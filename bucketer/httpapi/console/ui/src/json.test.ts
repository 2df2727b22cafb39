import { describe, expect, it } from 'vitest';
import { longNumber, memberText } from './json';

describe('longNumber', () => {
  it.each([
    ['{"id": 9007199254740993}', '9007199254740993'],
    ['{"id": -12345678901234567890}', '-12345678901234567890'],
    ['{"id": "9007199254740993", "n": 9007199254740992, "m": 1795253400123456}', undefined],
    ['[1.5, 1e300]', undefined],
  ])('of %s', (json, found) => {
    expect(longNumber(json)).toBe(found);
  });
  it('finds what is no number at all to JavaScript', () => {
    expect(longNumber(`[${'9'.repeat(400)}]`)).toHaveLength(400);
  });
});

describe('memberText', () => {
  it('has numbers as they are written', () => {
    const run = '{"id":"a","payload":{"id":9007199254740993,"of":[1.50]},"state":"failed"}';
    expect(memberText(run, 'payload')?.replaceAll(/\s/g, '')).toBe('{"id":9007199254740993,"of":[1.50]}');
  });
  it('is absent', () => {
    expect(memberText('{"payload":null}', 'payload')).toBeUndefined();
    expect(memberText('{}', 'payload')).toBeUndefined();
  });
  it('is indented', () => {
    expect(memberText('{"payload":[1]}', 'payload')).toBe('[\n  1\n]');
  });
});
