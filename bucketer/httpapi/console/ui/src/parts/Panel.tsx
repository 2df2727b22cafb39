// A part of a view with a heading, and what it shows of an answer: the data, that there is none yet,
// that the node does not offer it, that the person may not see it, or what is wrong.

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import type { Live } from '../api/live';
import type { Problem } from '../api/problem';
import { Age } from './Age';
import { Icon } from './Icon';
import { Refusal } from './Refusal';

export interface PanelProps {
  title: string;
  /** Its answer, for the age; with `every` as it was asked for. */
  live?: Live<unknown>;
  every?: number;
  actions?: ComponentChildren;
  /** A sentence below the heading. */
  about?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}

export function Panel({ title, live, every = 0, actions, about, class: extra = '', children }: PanelProps) {
  const id = useId();
  return (
    <section class={`panel ${extra}`} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id}>{title}</h2>
        {live && every > 0 && <Age live={live} every={every} />}
        {actions && <div class="panel-actions">{actions}</div>}
      </header>
      {about && <p class="panel-about">{about}</p>}
      {children}
    </section>
  );
}

export interface AnsweredProps<T> {
  live: Live<T>;
  /** What it is, for sentences: "the list of operations". */
  what: string;
  /** Who may see it, if not everybody: "It needs the role admin." */
  needs?: string;
  children: (data: T) => ComponentChildren;
}

/** Shows an answer, or says in a sentence why there is none. */
export function Answered<T>({ live, what, needs, children }: AnsweredProps<T>) {
  const { data, problem } = live;
  if (data !== undefined) {
    return (
      <>
        {problem && (
          <p class="stale-note">
            <Icon name="warning" size={14} /> Not up to date. {problem.sentence}
          </p>
        )}
        {children(data)}
      </>
    );
  }
  if (problem) {
    return <Missing problem={problem} what={what} needs={needs} retry={live.refresh} />;
  }
  return (
    <div class="skeleton" aria-busy="true">
      <span class="hidden">Asking for {what}</span>
    </div>
  );
}

export function Missing(props: { problem: Problem; what: string; needs?: string | undefined; retry?: () => void }) {
  const { problem, what, needs, retry } = props;
  if (problem.notOffered) {
    return (
      <p class="absent">
        <Icon name="slash" /> This node does not offer {what}.
      </p>
    );
  }
  if (problem.notFound) {
    return (
      <p class="absent">
        <Icon name="slash" /> Not found: {what}. {problem.detail || 'It may be another tenant’s, or have left.'}
      </p>
    );
  }
  if (problem.forbidden) {
    return (
      <p class="absent">
        <Icon name="slash" /> Your key may not see {what}. {needs ?? problem.detail}
      </p>
    );
  }
  if (problem.passing) {
    // The banner of the page says what is wrong, once.
    return (
      <p class="absent">
        <Icon name="clock" /> There is no answer yet: {problem.title}.
        {retry && (
          <button type="button" class="button small" onClick={retry}>
            Try again
          </button>
        )}
      </p>
    );
  }
  return (
    <Refusal problem={problem}>
      {retry && (
        <button type="button" class="button small" onClick={retry}>
          Try again
        </button>
      )}
    </Refusal>
  );
}
