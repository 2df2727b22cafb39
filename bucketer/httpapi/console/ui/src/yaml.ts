// Reads and writes the YAML that people write for workflows, of which JSON is a part. Pure. What is
// rare or means different things to different programs (anchors, tags, octal numbers, several
// documents) is refused with its place, and never guessed: write that as JSON, or use the program.
//
// It is loaded when a workflow is shown or written as YAML, and takes nothing from the rest of the
// page: it may be of a node of another version.

import type { Entry, ListPart, MapPart, Part, ScalarPart } from './document';

/** What a text cannot be read for, and where. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable';

  constructor(
    readonly at: number,
    message: string,
  ) {
    super(message);
  }
}

const deepest = 100;
const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** What some program or other takes for a number. */
const numberLike = /^[-+]?(?:\.?\d[\d_]*(?:\.[\d_]*)?(?:[eE][-+]?\d+)?|0[xob][\da-fA-F_]+|\.(?:inf|Inf|INF|nan|NaN|NAN))$/;
const words: Record<string, string> = {
  '': 'null',
  '~': 'null',
  null: 'null',
  Null: 'null',
  NULL: 'null',
  true: 'true',
  True: 'true',
  TRUE: 'true',
  false: 'false',
  False: 'false',
  FALSE: 'false',
};

const escapes: Record<string, string> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  t: '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\x1b',
  ' ': ' ',
  '"': '"',
  '/': '/',
  '\\': '\\',
  N: '\u0085',
  _: '\u00a0',
  L: '\u2028',
  P: '\u2029',
};

/** Reads one document. It throws Unreadable. An empty text is null. */
export function readYaml(text: string): Part {
  return new Reader(text.replaceAll('\r\n', '\n').replaceAll('\r', '\n')).document();
}

class Reader {
  #at = 0;
  #depth = 0;

  constructor(private readonly text: string) {}

  document(): Part {
    if (this.text.startsWith('\ufeff')) {
      this.#at = 1;
    }
    this.#skip();
    if (this.#peek() === '%') {
      this.#fail('Directives are not read here');
    }
    if (this.#marker('---')) {
      this.#at += 3;
      this.#skip();
    }
    const part = this.#block(-1, this.#column());
    this.#skip();
    if (this.#marker('...')) {
      this.#at += 3;
      this.#skip();
    }
    if (this.#marker('---')) {
      this.#fail('Only one document is read here');
    }
    if (this.#at < this.text.length) {
      this.#fail('This does not belong to what stands before it: is it indented wrongly?');
    }
    return part;
  }

  #fail(message: string, at = this.#at): never {
    throw new Unreadable(at, message);
  }

  #peek(ahead = 0): string {
    return this.text[this.#at + ahead] ?? '';
  }

  #column(at = this.#at): number {
    return at - this.text.lastIndexOf('\n', at - 1) - 1;
  }

  #marker(mark: string): boolean {
    return this.#column() === 0 && this.text.startsWith(mark, this.#at) && /^\s?$/.test(this.#peek(3));
  }

  /** Skips space, line ends and comments. */
  #skip(): void {
    for (;;) {
      const c = this.#peek();
      if (c === '\t' && /^[ \t]*$/.test(this.text.slice(this.text.lastIndexOf('\n', this.#at - 1) + 1, this.#at))) {
        const rest = /^[ \t]*/.exec(this.text.slice(this.#at, this.#at + 200))?.[0] ?? '';
        if (!/^[#\n]?$/.test(this.#peek(rest.length)) && this.#flows === 0) {
          this.#fail('A line is indented by a tab: take spaces');
        }
      }
      if (c === ' ' || c === '\t' || c === '\n') {
        this.#at++;
      } else if (c === '#' && this.#spaceBefore()) {
        this.#line();
      } else {
        return;
      }
    }
  }

  #flows = 0;

  #spaceBefore(): boolean {
    return this.#at === 0 || /\s/.test(this.text[this.#at - 1] ?? '');
  }

  /** Goes to the end of the line. */
  #line(): void {
    const end = this.text.indexOf('\n', this.#at);
    this.#at = end < 0 ? this.text.length : end;
  }

  /** Skips space within the line, and a comment at its end. Reports whether the line ends there. */
  #lineEnds(): boolean {
    while (this.#peek() === ' ' || this.#peek() === '\t') {
      this.#at++;
    }
    if (this.#peek() === '#' && this.#spaceBefore()) {
      this.#line();
    }
    return this.#peek() === '\n' || this.#at >= this.text.length;
  }

  #deeper<T>(read: () => T): T {
    if (++this.#depth > deepest) {
      this.#fail(`It is nested more than ${deepest} deep`);
    }
    const part = read();
    this.#depth--;
    return part;
  }

  /** Reads what stands here, at that column, as part of what stands at column `around`. */
  #block(around: number, column: number): Part {
    return this.#deeper(() => {
      const c = this.#peek();
      if (this.#at >= this.text.length || this.#marker('---') || this.#marker('...')) {
        return this.#nothing();
      }
      if (c === '-' && /^\s?$/.test(this.#peek(1))) {
        return this.#list(column);
      }
      if (c === '?' && /^\s?$/.test(this.#peek(1))) {
        this.#fail('Keys with a question mark are not read here');
      }
      return this.#isKey() ? this.#map(column) : this.#inline(around);
    });
  }

  #nothing(at = this.#at): ScalarPart {
    return { kind: 'scalar', json: 'null', start: at, end: at };
  }

  /** Whether a key and a colon stand here. */
  #isKey(): boolean {
    const end = this.text.indexOf('\n', this.#at);
    const line = this.text.slice(this.#at, end < 0 ? undefined : end);
    if (/^["']/.test(line)) {
      return /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ \t]*:(?:[ \t]|$)/.test(line);
    }
    if (/^[[{|>]/.test(line)) {
      return false;
    }
    const colon = /:(?:[ \t]|$)/.exec(line);
    const comment = /(?:^|[ \t])#/.exec(line);
    return colon !== null && (comment === null || comment.index > colon.index);
  }

  #list(column: number): ListPart {
    const list: ListPart = { kind: 'list', items: [], start: this.#at, end: this.#at };
    while (this.#peek() === '-' && /^\s?$/.test(this.#peek(1)) && !this.#marker('---')) {
      this.#at++;
      const dash = this.#at;
      if (!this.#lineEnds()) {
        list.items.push(this.#block(column, this.#column()));
      } else {
        this.#skip();
        const next = this.#column();
        list.items.push(this.#more() && next > column ? this.#block(column, next) : this.#nothing(dash));
      }
      list.end = Math.max(list.end, list.items.at(-1)?.end ?? 0);
      if (!this.#next(column)) {
        break;
      }
    }
    return list;
  }

  #map(column: number): MapPart {
    const map: MapPart = { kind: 'map', entries: [], start: this.#at, end: this.#at };
    for (;;) {
      const entry = this.#key(map);
      while (this.#peek() === ' ' || this.#peek() === '\t') {
        this.#at++;
      }
      this.#at++; // the colon
      const after = this.#at;
      if (!this.#lineEnds()) {
        entry.value = this.#inline(column);
      } else {
        this.#skip();
        const next = this.#column();
        const dash = this.#peek() === '-' && /^\s?$/.test(this.#peek(1));
        entry.value =
          this.#more() && (next > column || (next === column && dash)) ? this.#block(column, next) : this.#nothing(after);
      }
      map.end = Math.max(entry.end, entry.value.end);
      if (!this.#next(column)) {
        return map;
      }
      if (!this.#isKey()) {
        this.#fail('A key and a colon must stand here');
      }
    }
  }

  #more(): boolean {
    return this.#at < this.text.length && !this.#marker('---') && !this.#marker('...');
  }

  /** Goes to the next part at that column; false if there is none. */
  #next(column: number): boolean {
    // What stood deeper may have gone to the next line already.
    const begins = this.text.slice(this.#at - this.#column(), this.#at).trim() === '';
    if (!begins && !this.#lineEnds()) {
      this.#fail('The line goes on where it should end');
    }
    this.#skip();
    if (!this.#more() || this.#column() < column) {
      return false;
    }
    if (this.#column() > column) {
      this.#fail('This line is indented more than what it belongs to');
    }
    return true;
  }

  #key(map: MapPart): Entry {
    const start = this.#at;
    let key: string;
    if (this.#peek() === '"' || this.#peek() === "'") {
      key = this.#quoted();
    } else {
      this.#refuseMarks();
      while (!(this.#peek() === ':' && /^[\s]?$/.test(this.#peek(1)))) {
        this.#at++;
      }
      key = this.text.slice(start, this.#at).trimEnd();
    }
    const entry: Entry = { key, value: this.#nothing(), start, end: start + Math.max(1, this.#at - start) };
    this.#add(map, entry);
    return entry;
  }

  #add(map: MapPart, entry: Entry): void {
    if (entry.key === '<<') {
      this.#fail('Merges (<<) are not read here', entry.start);
    }
    if (map.entries.some((e) => e.key === entry.key)) {
      this.#fail(`${entry.key} is there twice`, entry.start);
    }
    map.entries.push(entry);
  }

  #refuseMarks(): void {
    const what = { '&': 'Anchors', '*': 'References', '!': 'Tags' }[this.#peek()];
    if (what !== undefined) {
      this.#fail(`${what} are not read here: write it out, or put it in quotes`);
    }
    if (this.#peek() === '@' || this.#peek() === '`') {
      this.#fail(`A text that begins with ${this.#peek()} must stand in quotes`);
    }
  }

  /** Reads a value that begins in the line, as part of what stands at column `around`. */
  #inline(around: number): Part {
    this.#refuseMarks();
    switch (this.#peek()) {
      case '{':
      case '[':
        return this.#flow();
      case '"':
      case "'": {
        const start = this.#at;
        const text = this.#quoted(around);
        if (!this.#lineEnds()) {
          this.#fail('The line goes on after the quotes');
        }
        return { kind: 'scalar', json: JSON.stringify(text), start, end: this.#at };
      }
      case '|':
      case '>':
        return this.#lines(around);
    }
    return this.#plain(around);
  }

  #plain(around: number): ScalarPart {
    const start = this.#at;
    if (/^[-?:][ \t\n]/.test(this.text.slice(start, start + 2))) {
      this.#fail(`${this.#peek()} cannot begin a value here`);
    }
    let end = start;
    let text = '';
    let breaks = 0;
    for (;;) {
      const from = this.#at;
      while (this.#at < this.text.length && this.#peek() !== '\n' && !(this.#peek() === '#' && this.#spaceBefore())) {
        if (this.#peek() === ':' && /^[ \t\n]?$/.test(this.#peek(1))) {
          this.#fail('A colon and a space in a text: put the text in quotes');
        }
        this.#at++;
      }
      const piece = this.text.slice(from, this.#at).trimEnd();
      text += (text === '' ? '' : breaks > 1 ? '\n'.repeat(breaks - 1) : ' ') + piece;
      end = from + piece.length;
      const commented = this.#peek() === '#';
      this.#line();
      if (commented) {
        break;
      }
      // It goes on in lines that are indented more than what it belongs to.
      const rest = /^(?:\n[ \t]*)+/.exec(this.text.slice(this.#at))?.[0] ?? '';
      const next = this.#at + rest.length;
      if (rest === '' || next >= this.text.length || this.#column(next) <= around || this.text[next] === '#') {
        break;
      }
      breaks = rest.split('\n').length - 1;
      this.#at = next;
      if (this.#isKey()) {
        this.#fail('This line is indented more than what it belongs to');
      }
    }
    this.#at = end;
    return { kind: 'scalar', json: this.#resolved(text, start), start, end };
  }

  #resolved(text: string, at: number): string {
    if (Object.hasOwn(words, text)) {
      return words[text] ?? 'null';
    }
    if (jsonNumber.test(text)) {
      return text;
    }
    if (numberLike.test(text)) {
      this.#fail('Programs read this number differently: write it as JSON does, or put it in quotes', at);
    }
    return JSON.stringify(text);
  }

  /** Reads a text in quotes; one of several lines must be indented more than `around`. */
  #quoted(around = -1): string {
    const quote = this.#peek();
    const begin = this.#at++;
    let text = '';
    for (;;) {
      const c = this.#peek();
      if (this.#at >= this.text.length) {
        this.#fail('The quotes are not closed', begin);
      }
      if (c === quote) {
        if (quote === "'" && this.#peek(1) === "'") {
          text += "'";
          this.#at += 2;
          continue;
        }
        this.#at++;
        return text;
      }
      if (c === '\n') {
        const fold = /^(?:\n[ \t]*)+/.exec(this.text.slice(this.#at))?.[0] ?? '\n';
        const breaks = fold.split('\n').length - 1;
        this.#at += fold.length;
        if (this.#column() <= around && this.#flows === 0) {
          this.#fail('The quotes are not closed', begin);
        }
        text = text.replace(/[ \t]+$/, '') + (breaks > 1 ? '\n'.repeat(breaks - 1) : ' ');
      } else if (c === '\\' && quote === '"') {
        this.#at++;
        text += this.#escape();
      } else {
        text += c;
        this.#at++;
      }
    }
  }

  #escape(): string {
    const c = this.#peek();
    const digits = { x: 2, u: 4, U: 8 }[c];
    if (digits !== undefined) {
      const hex = this.text.slice(this.#at + 1, this.#at + 1 + digits);
      const code = Number.parseInt(hex, 16);
      if (hex.length < digits || !/^[\da-fA-F]+$/.test(hex) || code > 0x10ffff) {
        this.#fail(`After \\${c} there must be ${digits} hexadecimal digits`);
      }
      this.#at += 1 + digits;
      return digits === 4 ? String.fromCharCode(code) : String.fromCodePoint(code);
    }
    if (c === '\n') {
      this.#at += (/^\n[ \t]*/.exec(this.text.slice(this.#at))?.[0] ?? '\n').length;
      return '';
    }
    const meant = escapes[c];
    if (meant === undefined || c === '') {
      this.#fail(`\\${c} means nothing in quotes`);
    }
    this.#at++;
    return meant;
  }

  /** Reads a text of whole lines, after | or >. */
  #lines(around: number): ScalarPart {
    const start = this.#at;
    const end = this.text.indexOf('\n', start);
    const head = this.text.slice(start, end < 0 ? undefined : end);
    const form = /^([|>])(?:([-+])?([1-9])?|([1-9])([-+]))[ \t]*(?:[ \t]#.*)?$/.exec(head);
    if (!form) {
      this.#fail(`After ${head[0]} the line must end`);
    }
    const folds = form[1] === '>';
    const chomp = form[2] ?? form[5] ?? '';
    const stated = form[3] ?? form[4];
    const all = end < 0 ? [] : this.text.slice(end + 1).split('\n');
    if (all.at(-1) === '') {
      all.pop(); // the text ends with its last line
    }
    let indent = stated === undefined ? 0 : Math.max(around, 0) + Number(stated);
    if (stated === undefined) {
      const first = all.find((line) => line.trim() !== '');
      indent = first === undefined ? 0 : first.length - first.trimStart().length;
    }
    const lines: string[] = [];
    let at = end < 0 ? this.text.length : end;
    if (indent > around) {
      for (const line of all) {
        const blank = line.trim() === '';
        if (!blank && line.length - line.trimStart().length < indent) {
          break;
        }
        lines.push(blank ? '' : line.slice(indent));
        at += 1 + line.length;
      }
    }
    this.#at = Math.min(at, this.text.length);
    let blanks = 0;
    while (lines.at(-1) === '') {
      lines.pop();
      blanks++;
    }
    let text = folds ? folded(lines) : lines.join('\n');
    if (lines.length > 0 && chomp !== '-' && this.#at < this.text.length) {
      text += '\n';
    }
    if (chomp === '+') {
      text += '\n'.repeat(blanks);
    }
    return { kind: 'scalar', json: JSON.stringify(text), start, end: this.#at };
  }

  #flow(): Part {
    return this.#deeper(() => {
      this.#flows++;
      const part = this.#peek() === '{' ? this.#flowMap() : this.#peek() === '[' ? this.#flowList() : this.#flowScalar();
      this.#flows--;
      return part;
    });
  }

  #flowList(): ListPart {
    const list: ListPart = { kind: 'list', items: [], start: this.#at, end: this.#at };
    this.#at++;
    for (;;) {
      this.#skip();
      if (this.#peek() === ']') {
        break;
      }
      list.items.push(this.#flow());
      this.#skip();
      if (this.#peek() === ':') {
        this.#fail('A key in a list: put braces around it');
      }
      this.#comma(']', list.start);
    }
    list.end = ++this.#at;
    return list;
  }

  #flowMap(): MapPart {
    const map: MapPart = { kind: 'map', entries: [], start: this.#at, end: this.#at };
    this.#at++;
    for (;;) {
      this.#skip();
      if (this.#peek() === '}') {
        break;
      }
      const start = this.#at;
      const quoted = this.#peek() === '"' || this.#peek() === "'";
      const key = quoted ? this.#quoted() : this.#flowText();
      if (!quoted && key === '') {
        this.#fail(this.#at >= this.text.length ? 'The brace is not closed' : 'A key must stand here', start);
      }
      const entry: Entry = { key, value: this.#nothing(), start, end: this.#at };
      this.#add(map, entry);
      this.#skip();
      if (this.#peek() === ':') {
        this.#at++;
        this.#skip();
        if (this.#peek() !== ',' && this.#peek() !== '}') {
          entry.value = this.#flow();
        }
        this.#skip();
      }
      this.#comma('}', map.start);
    }
    map.end = ++this.#at;
    return map;
  }

  #comma(close: string, open: number): void {
    if (this.#peek() === ',') {
      this.#at++;
    } else if (this.#peek() !== close) {
      if (this.#at >= this.text.length) {
        this.#fail(`${close === '}' ? 'The brace' : 'The bracket'} is not closed`, open);
      }
      this.#fail(`A comma or ${close} must stand here`);
    }
  }

  #flowScalar(): ScalarPart {
    const start = this.#at;
    if (this.#peek() === '"' || this.#peek() === "'") {
      return { kind: 'scalar', json: JSON.stringify(this.#quoted()), start, end: this.#at };
    }
    const text = this.#flowText();
    if (text === '') {
      this.#fail(this.#at >= this.text.length ? 'It ends in the middle' : 'A value must stand here');
    }
    return { kind: 'scalar', json: this.#resolved(text, start), start, end: start + text.length };
  }

  #flowText(): string {
    this.#refuseMarks();
    const start = this.#at;
    for (; this.#at < this.text.length; this.#at++) {
      const c = this.#peek();
      if (/[,[\]{}\n]/.test(c) || (c === '#' && this.#spaceBefore())) {
        break;
      }
      if (c === ':' && /^[\s,[\]{}]?$/.test(this.#peek(1))) {
        break;
      }
    }
    const text = this.text.slice(start, this.#at).trimEnd();
    this.#at = start + text.length;
    return text;
  }
}

/** Lines of a text after >: those that stand together become one. */
function folded(lines: readonly string[]): string {
  let text = '';
  let breaks = 0;
  let deeper = true; // nothing before it
  for (const [i, line] of lines.entries()) {
    if (line === '') {
      breaks++;
      continue;
    }
    const indented = /^[ \t]/.test(line);
    if (i === breaks && text === '') {
      text += '\n'.repeat(breaks);
    } else if (indented || deeper) {
      text += '\n'.repeat(breaks + 1);
    } else {
      text += breaks > 0 ? '\n'.repeat(breaks) : ' ';
    }
    text += line;
    breaks = 0;
    deeper = indented;
  }
  return text;
}

/** The widest line that stands for a map or a list. */
const widest = 88;

/** Writes a tree as YAML, in blocks; what is short and flat stands in braces. */
export function writeYaml(part: Part): string {
  return part.kind === 'scalar' || isEmpty(part) ? flat(part) + '\n' : block(part, 0);
}

function isEmpty(part: Part): boolean {
  return part.kind !== 'scalar' && (part.kind === 'list' ? part.items : part.entries).length === 0;
}

function block(part: MapPart | ListPart, indent: number): string {
  const space = ' '.repeat(indent);
  if (part.kind === 'list') {
    const items = part.items.map((item) => `${space}-${below(item, indent, true)}`);
    // What takes several lines stands apart: the steps of a workflow.
    return items.join(indent <= 2 && items.every((item) => item.split('\n').length > 3) ? '\n' : '');
  }
  return part.entries.map((e) => `${space}${keyText(e.key)}:${below(e.value, indent, false)}`).join('');
}

/** What stands after "- " or "key:", with the end of its line. */
function below(part: Part, indent: number, item: boolean): string {
  if (part.kind === 'scalar') {
    const text = part.json.startsWith('"') ? (JSON.parse(part.json) as string) : '';
    if (/^\S[^\r\t]*\n/.test(text) && !/[^\n\x20-\x7e\u00a0-\ud7ff\ue000-\ufefe]/.test(text)) {
      return ` |${text.endsWith('\n') ? (/\n\n$/.test(text) ? '+' : '') : '-'}\n${text
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => (line === '' ? '' : ' '.repeat(indent + 2) + line))
        .join('\n')}\n`;
    }
    return ` ${flat(part)}\n`;
  }
  const short = flat(part);
  const isFlat =
    part.kind === 'list'
      ? part.items.every((p) => p.kind === 'scalar' || (p.kind === 'map' && p.entries.length < 2))
      : part.entries.every((e) => e.value.kind === 'scalar' || (e.value.kind === 'map' && e.value.entries.length < 2));
  if (isEmpty(part) || (isFlat && !item && short.length + indent <= widest && !short.includes('\\n'))) {
    return ` ${short}\n`;
  }
  const rest = block(part, indent + 2);
  return item ? ` ${rest.slice(indent + 2)}` : `\n${rest}`;
}

function flat(part: Part): string {
  switch (part.kind) {
    case 'scalar':
      return part.json.startsWith('"') ? plainText(JSON.parse(part.json) as string) : part.json;
    case 'list':
      return `[${part.items.map(flat).join(', ')}]`;
    case 'map':
      return `{${part.entries.map((e) => `${keyText(e.key)}: ${flat(e.value)}`).join(', ')}}`;
  }
}

/** A text without quotes where nobody could read it as something else. */
function plainText(text: string): string {
  const plain = /^[A-Za-z_$/.(][^\n\t\r,[\]{}"'#:&*!|>%@`\\]*(?::[^\s,[\]{}"'#\\]+)*$/.test(text) && !/\s$/.test(text);
  const ascii = /^[\x20-\x7e]*$/.test(text);
  const word = /^(?:y|n|yes|no|on|off|true|false|null|~)$/i.test(text);
  const span = /^(?:\d+(?:ms|s|m|h))+$/.test(text);
  if (span || (plain && ascii && !word && !numberLike.test(text) && !/^\.+$/.test(text))) {
    return text;
  }
  return ascii && /["\\]/.test(text) && !text.includes("'") ? `'${text}'` : JSON.stringify(text);
}

function keyText(key: string): string {
  // "on" is a key of workflows, and is quoted by no one.
  return /^[A-Za-z_$][\w.$-]*$/.test(key) && (!/^(?:y|n|yes|no|off|true|false|null)$/i.test(key) || key === 'on')
    ? key
    : JSON.stringify(key);
}
