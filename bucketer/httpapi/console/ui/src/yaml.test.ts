import { describe, expect, it } from 'vitest';
import { locate, lineAt, memberOf, partOf, textOf, toJson } from './document';
import { readYaml, Unreadable, writeYaml } from './yaml';

function valueOf(text: string): unknown {
  return JSON.parse(toJson(readYaml(text)));
}

function faultOf(text: string): { line: number; message: string } {
  try {
    readYaml(text);
  } catch (thrown) {
    if (thrown instanceof Unreadable) {
      return { line: lineAt(text, thrown.at), message: thrown.message };
    }
    throw thrown;
  }
  throw new Error('it was read');
}

const etl = `# Each night
name: etl
labels: {team: data}
schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}
deadline: 1h
payload:
  date: {$run: /nominal_at} # of runs that state none

steps:
  - name: extract
    http: {url: http://127.0.0.1:9000/extract}
    payload: {date: {$input: /date}}

  - name: transform # a run for each file
    after: [extract]
    for_each: {from: extract, pointer: /files, max_concurrent: 4}
    http: {url: "http://127.0.0.1:9000/transform"}
    payload: {file: {$item: ""}, number: {$index: true}}

  - name: check
    after:
    - extract
    if: size(steps.extract.output.files) > 5
    http:
      url: http://127.0.0.1:9000/check
      headers: {x-a: 'it''s'}
`;

describe('YAML', () => {
  it('reads a workflow as the program does', () => {
    expect(valueOf(etl)).toEqual({
      name: 'etl',
      labels: { team: 'data' },
      schedule: { cron: '0 2 * * *', timezone: 'Europe/Berlin' },
      deadline: '1h',
      payload: { date: { $run: '/nominal_at' } },
      steps: [
        { name: 'extract', http: { url: 'http://127.0.0.1:9000/extract' }, payload: { date: { $input: '/date' } } },
        {
          name: 'transform',
          after: ['extract'],
          for_each: { from: 'extract', pointer: '/files', max_concurrent: 4 },
          http: { url: 'http://127.0.0.1:9000/transform' },
          payload: { file: { $item: '' }, number: { $index: true } },
        },
        {
          name: 'check',
          after: ['extract'],
          if: 'size(steps.extract.output.files) > 5',
          http: { url: 'http://127.0.0.1:9000/check', headers: { 'x-a': "it's" } },
        },
      ],
    });
  });

  it.each<[string, string, unknown]>([
    ['nothing', '', null],
    ['a comment alone', '# nothing\n', null],
    ['JSON', '{"a": [1, -2.5e3, true, null, "x\\u00e9\\n\\/"], "b": {}}', { a: [1, -2500, true, null, 'xé\n/'], b: {} }],
    ['JSON indented by tabs', '{\n\t"a":\t1\n}', { a: 1 }],
    ['JSON without spaces', '{"a":"b","c":[{"d":1}]}', { a: 'b', c: [{ d: 1 }] }],
    ['an empty value', 'a:\nb: 1', { a: null, b: 1 }],
    ['words that are no texts', 'a: true\nb: False\nc: ~\nd: null', { a: true, b: false, c: null, d: null }],
    ['words that are texts', 'on: {event: yes}\nb: off', { on: { event: 'yes' }, b: 'off' }],
    ['times and versions', 'a: 2026-11-21\nb: 1.4.0\nc: 10:30', { a: '2026-11-21', b: '1.4.0', c: '10:30' }],
    ['a list in a list', '- - 1\n  - 2\n-\n  - 3', [[1, 2], [3]]],
    ['maps in a list', '- a: 1\n  b: 2\n- a: 3', [{ a: 1, b: 2 }, { a: 3 }]],
    ['a list as deep as its key', 'a:\n- 1\n- 2\nb: 3', { a: [1, 2], b: 3 }],
    ['lines as they are', 'a: |\n  x\n   y\n\n  z\nb: 1', { a: 'x\n y\n\nz\n', b: 1 }],
    ['lines without the last end', 'a: |-\n  x\n  y\n', { a: 'x\ny' }],
    ['lines with all ends', 'a: |+\n  x\n\nb: 1', { a: 'x\n\n', b: 1 }],
    ['folded lines', 'a: >\n  x\n  y\n\n  z\n', { a: 'x y\nz\n' }],
    ['folded lines, some indented', 'a: >\n  x\n    y\n  z\n', { a: 'x\n  y\nz\n' }],
    ['lines with a stated indent', 'a: |2\n    x\n', { a: '  x\n' }],
    ['a text of several lines', 'a: one\n  two\n\n  three\nb: 1', { a: 'one two\nthree', b: 1 }],
    ['quotes of several lines', 'a: "one\n  two\\\n  three"', { a: 'one twothree' }],
    ['a mark in a text', 'a: b#c\nd: e # f', { a: 'b#c', d: 'e' }],
    ['a quoted key', '"a b": 1\n\'c\': 2', { 'a b': 1, c: 2 }],
    ['braces over lines', 'a: {b: 1,\n  c: [2,\n 3], }', { a: { b: 1, c: [2, 3] } }],
    ['a document mark', '---\na: 1\n...\n', { a: 1 }],
    ['ends of lines of Windows', 'a: 1\r\nb:\r\n  - 2\r\n', { a: 1, b: [2] }],
    ['emoji and right to left', 'a: 👩‍🚀 שלום', { a: '👩‍🚀 שלום' }],
    ['a key that objects have', '__proto__: 1\nconstructor: 2', JSON.parse('{"__proto__": 1, "constructor": 2}')],
  ])('reads %s', (_name, text, want) => {
    expect(valueOf(text)).toEqual(want);
  });

  it('keeps numbers to the last digit', () => {
    expect(toJson(readYaml('a: 12345678901234567890\nb: [0.1000]'))).toBe('{"a":12345678901234567890,"b":[0.1000]}');
  });

  it.each<[string, string, number, RegExp]>([
    ['a tab', 'a:\n\tb: 1', 2, /tab/],
    ['a key twice', 'a: 1\nb: 2\na: 3', 3, /twice/],
    ['too much indent', 'a: 1\n  b: 2', 2, /indented more/],
    ['a stray line', 'a:\n    b: 1\n  c: 2', 3, /does not belong|indented/],
    ['an anchor', 'a: &x 1', 1, /Anchors/],
    ['a reference', 'a: *x', 1, /References/],
    ['a tag', 'a: !!str 1', 1, /Tags/],
    ['a merge', 'a: 1\n<<: b', 2, /Merges/],
    ['two documents', 'a: 1\n---\nb: 2', 2, /Only one/],
    ['an octal number', 'a: 1\nb: 012', 2, /number/],
    ['a hexadecimal number', 'a: 0x1f', 1, /number/],
    ['an open brace', 'a: {b: 1', 1, /not closed/],
    ['an open bracket', 'a:\n  - [1, 2', 2, /not closed/],
    ['an open quote', 'a: "b\nc: 1', 1, /not closed/],
    ['a colon in a text', 'a: b: c', 1, /quotes/],
    ['a missing comma', '{"a": 1 "b": 2}', 1, /comma/],
    ['half a JSON', '{"a": ', 1, /ends|value|not closed/],
    ['something after quotes', 'a: "b" c', 1, /goes on/],
    ['a key with a question mark', '? a\n: b', 1, /question mark/],
    ['depth', '['.repeat(200), 1, /deep/],
  ])('refuses %s, and says where', (_name, text, line, message) => {
    const fault = faultOf(text);
    expect(fault.message).toMatch(message);
    expect(fault.line).toBe(line);
  });

  it('writes what it reads as the same', () => {
    const values: unknown[] = [
      JSON.parse(toJson(readYaml(etl))),
      {},
      [],
      'x',
      { a: '', b: ' x', c: 'y ', d: 'null', e: '12', f: 'a: b', g: '- a', h: '#x', i: '{', j: 'on', k: '~', l: '@x', m: '1_0' },
      { text: 'one\ntwo\n', more: 'a\n\nb', ends: 'x\n\n', odd: ' x\ny', tab: 'a\tb\nc', unseen: 'a\u202eb', nel: 'a\u0085b' },
      [[1, [2, []]], [{ a: { b: { c: [1, { d: null }] } } }], [[]]],
      { 'a b': 1, 'x:y': 2, on: 3, yes: 4, '': 5, '1': 6, $input: 7, 'x-a.b': 8 },
      { long: 'word '.repeat(60).trim(), list: Array.from({ length: 60 }, (_, i) => `item-${i}`) },
      { emoji: '👩‍🚀', rtl: 'שלום', duration: '1h30m', url: 'http://a.b:80/c?d=e&f=g#h', cel: "event.a == 'b' && x > 1" },
    ];
    for (const value of values) {
      const text = writeYaml(partOf(value));
      expect(valueOf(text), text).toEqual(value);
    }
  });

  it('writes what a person would', () => {
    expect(writeYaml(partOf({ name: 'a', deadline: '1h', steps: [{ name: 'x', after: ['z'], http: { url: 'http://h:1/p' } }] }))).toBe(
      'name: a\ndeadline: 1h\nsteps:\n  - name: x\n    after: [z]\n    http: {url: http://h:1/p}\n',
    );
  });

  it('reads what is random as the same after it was written', () => {
    // A generator of its own, so that a failure can be repeated by its seed.
    let seed = 20261126;
    const next = (n: number): number => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      return seed % n;
    };
    const texts = ['a', '', 'b c', '1', 'true', ': x', 'x\ny', '\n', '"', "'", '#', '- ', '{}', 'é', '\\', 'a:b', '%', '!', '1e5', '\t'];
    const make = (depth: number): unknown => {
      switch (depth > 3 ? next(4) : next(6)) {
        case 0:
          return next(1000) - 500;
        case 1:
          return [true, false, null][next(3)];
        case 4:
          return Array.from({ length: next(4) }, () => make(depth + 1));
        case 5:
          return Object.fromEntries(Array.from({ length: next(4) }, () => [texts[next(texts.length)], make(depth + 1)]));
      }
      return Array.from({ length: next(3) }, () => texts[next(texts.length)]).join('');
    };
    for (let i = 0; i < 1500; i++) {
      const from = seed;
      const value = JSON.stringify(make(0));
      const part = partOf(JSON.parse(value));
      for (const text of [writeYaml(part), toJson(part, 2)]) {
        const read = toJson(readYaml(text));
        if (read !== value) {
          expect.fail(`seed ${from}: ${value} was written as\n${text}and read as ${read}`);
        }
      }
    }
  }, 60_000);
});

describe('places', () => {
  const root = readYaml(etl);
  const lineOf = (location: string): number | undefined => {
    const at = locate(root, location);
    return at && lineAt(etl, at.start);
  };

  it.each<[string, number | undefined]>([
    ['body', 2],
    ['body.name', 2],
    ['body.schedule.cron', 4],
    ['body.steps[1]', 14],
    ['body.steps[1].for_each.max_concurrent', 16],
    ['body.steps[2].http.headers.x-a', 26],
    ['body.steps[2].http.missing', 24],
    ['body.steps[9].name', 9],
    ['path.name', undefined],
    ['query.dry_run', undefined],
  ])('finds the line of %s', (location, line) => {
    expect(lineOf(location)).toBe(line);
  });

  it('finds keys that hold dots', () => {
    const text = 'labels:\n  a: 1\n  a.b: 2\n  a.b.c: 3\n';
    const at = locate(readYaml(text), 'body.labels.a.b.c');
    expect(at && lineAt(text, at.start)).toBe(4);
  });

  it('reads members', () => {
    expect(textOf(memberOf(root, 'name'))).toBe('etl');
    expect(textOf(memberOf(root, 'steps'))).toBeUndefined();
  });
});
