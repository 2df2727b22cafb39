// Chooses the stretch of due times of a list: one that moves with now, or one between two instants.

import { useEffect, useId, useState } from 'preact/hooks';
import { serverNow } from '../clock';
import { viewerZone } from '../preferences';
import { queryValue, setQuery } from '../router';
import { coarse, inputText, instantOf, offsetWords } from '../time';
import { longestWindow, spans as spansOfRuns, usualSpan, windowOf, type WindowChoices } from '../window';

const between = 'between';

export function WindowPicker(props: { label?: string } & Partial<WindowChoices>) {
  const { label = 'Due', spans = spansOfRuns, usual = usualSpan, longest = longestWindow } = props;
  const id = useId();
  const zone = viewerZone.value;
  const [from, to, last] = [queryValue('from'), queryValue('to'), queryValue('last')];
  const fixed = from !== '' && to !== '';
  const [typed, setTyped] = useState({ from: '', to: '' });
  const shown = fixed ? between : last === '' ? usual : last;
  useEffect(() => {
    if (fixed) {
      setTyped({ from: inputText(from, zone), to: inputText(to, zone) });
    }
  }, [from, to, zone, fixed]);

  const set = (next: { from: string; to: string }): void => {
    setTyped(next);
    const [a, b] = [instantOf(next.from, zone), instantOf(next.to, zone)];
    if (a && b && b > a && b.getTime() - a.getTime() <= longest) {
      setQuery({ from: a.toISOString(), to: b.toISOString(), last: '', cursor: '' });
    }
  };
  const [a, b] = [instantOf(typed.from, zone), instantOf(typed.to, zone)];
  const wrong = !fixed
    ? undefined
    : !a || !b
      ? 'State both ends.'
      : b <= a
        ? 'The end must come after the begin.'
        : b.getTime() - a.getTime() > longest
          ? `At most ${coarse(longest)}.`
          : undefined;
  const zoneText = `${zone}${a && zone !== 'UTC' ? ` ${offsetWords(a, zone)}` : ''}`;
  return (
    <>
      <div class="filter">
        <label for={`${id}-span`}>{label}</label>
        <select
          id={`${id}-span`}
          value={shown}
          onChange={(e) => {
            const { value } = e.currentTarget;
            if (value === between) {
              const now = windowOf({ from, to, last }, serverNow(), { usual, longest });
              setQuery({ from: now.from.toISOString(), to: now.to.toISOString(), last: '', cursor: '' });
            } else {
              setQuery({ from: '', to: '', last: value === usual ? '' : value, cursor: '' });
            }
          }}
        >
          {spans.map((s) => (
            <option key={s.value} value={s.value} selected={s.value === shown}>
              {s.text}
            </option>
          ))}
          {!spans.some((s) => s.value === shown) && shown !== between && (
            <option value={shown} selected>
              last {shown}
            </option>
          )}
          <option value={between} selected={shown === between}>
            between …
          </option>
        </select>
      </div>
      {fixed && (
        <fieldset class="filter window">
          <legend>Between, in {zoneText}</legend>
          <div class="row">
            <input
              type="datetime-local"
              step="0.001"
              aria-label={`From, in ${zoneText}`}
              aria-invalid={wrong ? 'true' : undefined}
              aria-describedby={wrong ? `${id}-wrong` : undefined}
              value={typed.from}
              onChange={(e) => set({ ...typed, from: e.currentTarget.value })}
            />
            <span>and</span>
            <input
              type="datetime-local"
              step="0.001"
              aria-label={`To, in ${zoneText}`}
              aria-invalid={wrong ? 'true' : undefined}
              aria-describedby={wrong ? `${id}-wrong` : undefined}
              value={typed.to}
              onChange={(e) => set({ ...typed, to: e.currentTarget.value })}
            />
          </div>
          {wrong && (
            <p id={`${id}-wrong`} class="field-wrong">
              {wrong}
            </p>
          )}
        </fieldset>
      )}
    </>
  );
}
