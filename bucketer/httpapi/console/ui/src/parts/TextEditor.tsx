// A text of many lines that a person writes, with their numbers, and marks at those with which
// something is wrong.

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Ref } from 'preact';
import type { InputProps } from './Field';

export interface TextEditorProps {
  input: InputProps;
  value: string;
  onValue: (value: string) => void;
  /** By line, from 1: what is wrong there. */
  marks: ReadonlyMap<number, string>;
  /** For who leads the person to a place in it. */
  area: Ref<HTMLTextAreaElement> & { current: HTMLTextAreaElement | null };
  rows?: number;
}

export function TextEditor({ input, value, onValue, marks, area, rows = 28 }: TextEditorProps) {
  const gutter = useRef<HTMLDivElement>(null);
  const lines = value.split('\n').length;
  const follow = (): void => {
    if (gutter.current && area.current) {
      gutter.current.scrollTop = area.current.scrollTop;
    }
  };
  useLayoutEffect(follow, [value]);
  return (
    <div class="text-editor">
      <div class="text-editor-lines" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, i) => (
          <div key={i} class={marks.has(i + 1) ? 'wrong' : undefined} title={marks.get(i + 1)}>
            {i + 1}
          </div>
        ))}
      </div>
      <textarea
        {...input}
        ref={area}
        class="mono"
        rows={rows}
        wrap="off"
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        value={value}
        onScroll={follow}
        onInput={(e) => onValue(e.currentTarget.value)}
        onKeyDown={(e) => indent(e, onValue)}
      />
    </div>
  );
}

/** Keeps the indent of the line above. Tab stays what it is: the way out of the field. */
function indent(e: KeyboardEvent, onValue: (value: string) => void): void {
  const area = e.currentTarget as HTMLTextAreaElement;
  if (e.key !== 'Enter' || e.ctrlKey || e.metaKey || e.shiftKey || e.isComposing) {
    return;
  }
  const { selectionStart, selectionEnd, value } = area;
  const line = value.slice(value.lastIndexOf('\n', selectionStart - 1) + 1, selectionStart);
  const space = /^ */.exec(line)?.[0] ?? '';
  const more = /[:{[]\s*$/.test(line) ? '  ' : '';
  if (space + more === '') {
    return;
  }
  e.preventDefault();
  area.setRangeText(`\n${space}${more}`, selectionStart, selectionEnd, 'end');
  onValue(area.value);
}

/** Puts the caret to a place of a text, and brings it into view. */
export function goToPlace(area: HTMLTextAreaElement | null, start: number, end: number): void {
  if (!area) {
    return;
  }
  area.focus();
  area.setSelectionRange(start, Math.min(end, start + 400));
  const line = area.value.slice(0, start).split('\n').length - 1;
  const height = Number.parseFloat(getComputedStyle(area).lineHeight) || 20;
  area.scrollTop = Math.max(0, line * height - area.clientHeight / 3);
}
