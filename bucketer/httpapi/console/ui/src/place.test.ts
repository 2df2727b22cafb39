import { describe, expect, it } from 'vitest';
import { changed, formatPlace, isElsewhere, match, parsePlace, pathTo } from './place';

describe('parsePlace', () => {
  it.each([
    ['', '/', ''],
    ['#', '/', ''],
    ['#/', '/', ''],
    ['#/runs', '/runs', ''],
    ['#/runs/', '/runs', ''],
    ['#/runs?state=failed&state=missed', '/runs', 'state=failed&state=missed'],
    ['#//jobs//a?b', '/jobs/a', 'b='],
    ['#jobs', '/jobs', ''],
  ])('%s', (hash, path, query) => {
    const place = parsePlace(hash);
    expect(place.path).toBe(path);
    expect(place.query.toString()).toBe(query);
  });
});

describe('formatPlace', () => {
  it('leaves out what says nothing', () => {
    expect(formatPlace('/runs', { a: '', b: undefined, c: null, d: false, e: 0, f: 'x y' })).toBe('#/runs?e=0&f=x+y');
  });
  it('states a list value by value', () => {
    expect(formatPlace('/runs', { state: ['failed', 'missed'] })).toBe('#/runs?state=failed&state=missed');
  });
  it('is what parsePlace reads', () => {
    const text = formatPlace('/jobs', { label: 'team=billing & "co"', name: 'é' });
    expect(formatPlace(parsePlace(text).path, parsePlace(text).query)).toBe(text);
  });
});

describe('changed', () => {
  it('replaces, adds and removes, and keeps the rest', () => {
    const query = new URLSearchParams('state=failed&state=missed&job=a');
    expect(changed(query, { state: ['running'], job: '', task: 't' }).toString()).toBe('state=running&task=t');
    expect(query.toString()).toBe('state=failed&state=missed&job=a');
  });
});

describe('isElsewhere', () => {
  it.each([
    ['#/jobs/new', '#/jobs', true],
    ['#/jobs/new', '#/jobs/new?edit=json', false],
    ['#/jobs/a/edit?edit=json', '#/jobs/a/edit', false],
    ['#/jobs/new', '#/jobs/new?tenant=acme', true],
    ['#/jobs/new?tenant=acme&edit=json', '#/jobs/new?tenant=acme', false],
  ])('from %s to %s', (from, to, want) => {
    expect(isElsewhere(parsePlace(from), parsePlace(to))).toBe(want);
  });
});

describe('match', () => {
  it.each([
    ['/', '/', {}],
    ['/runs/:id', '/runs/a', { id: 'a' }],
    ['/jobs/:id/edit', '/jobs/nightly/edit', { id: 'nightly' }],
    ['/jobs/:id', '/jobs/a%2Fb', { id: 'a/b' }],
    ['/jobs/:id', '/jobs/%zz', { id: '%zz' }],
    ['/runs/:id', '/runs', undefined],
    ['/runs', '/jobs', undefined],
    ['/runs/:id', '/runs/a/b', undefined],
  ])('%s against %s', (pattern, path, params) => {
    expect(match(pattern, path)).toEqual(params);
  });
  it('reads what pathTo writes', () => {
    expect(match('/jobs/:id/edit', pathTo('/jobs/:id/edit', { id: 'a/b ?#' }))).toEqual({ id: 'a/b ?#' });
  });
});
