// What the API refused, and why: every fault that it named.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Fault, Problem } from '../api/problem';
import { Icon } from './Icon';

export interface RefusalProps {
  problem: Problem | undefined;
  /** What was tried: "The run was not cancelled". */
  what?: string;
  /** Take the focus when it appears: for forms. */
  focus?: boolean;
  /** Leads to the field of a fault, in the form around it. */
  form?: boolean;
  children?: ComponentChildren;
}

export function Refusal({ problem, what, focus = false, form = false, children }: RefusalProps) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (focus && problem) {
      box.current?.focus();
    }
  }, [focus, problem]);
  if (!problem) {
    return null;
  }
  return (
    <div class="note bad" role="alert" tabIndex={-1} ref={box}>
      <Icon name="warning" />
      <div class="note-body">
        <p>
          {what !== undefined && <strong>{what}. </strong>}
          {what === undefined ? <strong>{problem.title}. </strong> : `${problem.title}. `}
          {problem.detail}
        </p>
        {problem.faults.length > 0 && (
          <ul class="faults">
            {problem.faults.map((fault, i) => (
              <li key={i}>
                {form ? (
                  <button type="button" class="link-button" onClick={() => focusField(box.current, fault)}>
                    {nameOf(fault.location)}
                  </button>
                ) : (
                  <code>{nameOf(fault.location)}</code>
                )}{' '}
                {fault.message}
              </li>
            ))}
          </ul>
        )}
        {children}
      </div>
    </div>
  );
}

function nameOf(location: string): string {
  return location.replace(/^body\.?/, '') || 'the whole';
}

/** Puts the focus into the field that is nearest to a fault: Field notes its location as data-at. */
function focusField(from: HTMLElement | null, fault: Fault): void {
  const form = from?.closest('form, dialog, main');
  let best: HTMLElement | undefined;
  for (const field of form?.querySelectorAll<HTMLElement>('[data-at]') ?? []) {
    const at = field.dataset.at ?? '';
    const covers = fault.location === at || fault.location.startsWith(at + '.') || fault.location.startsWith(at + '[');
    if (covers && at.length > (best?.dataset.at ?? '').length) {
      best = field;
    }
  }
  for (let part: HTMLElement | null | undefined = best; part; part = part.parentElement) {
    if (part instanceof HTMLDetailsElement) {
      part.open = true;
    }
  }
  best?.querySelector<HTMLElement>('input, select, textarea, button')?.focus();
}
