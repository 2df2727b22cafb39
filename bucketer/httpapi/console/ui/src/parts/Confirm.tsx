// Asks before something is done that cannot be taken back, or that is done to many.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from './Dialog';
import { Field } from './Field';

export interface Question {
  title: string;
  children?: ComponentChildren;
  /** The word on the button that does it: "Cancel 1,284 runs". */
  action: string;
  danger?: boolean | undefined;
  /** The word on the other button. */
  refuse?: string | undefined;
  /** What must be typed before: the number of things, or a name. */
  typed?: string | undefined;
}

interface Asked extends Question {
  answer: (yes: boolean) => void;
}

const asked = signal<Asked | undefined>(undefined);

/** Asks, and says what the person decided. */
export function confirm(question: Question): Promise<boolean> {
  asked.peek()?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (yes) => {
        asked.value = undefined;
        resolve(yes);
      },
    };
  });
}

/** Stands once in the page. */
export function ConfirmHost() {
  const question = asked.value;
  return question ? <Box question={question} /> : null;
}

function Box({ question }: { question: Asked }) {
  return (
    <Dialog title={question.title} onClose={() => question.answer(false)}>
      <ConfirmForm {...question} onYes={() => question.answer(true)} onNo={() => question.answer(false)} />
    </Dialog>
  );
}

export interface ConfirmFormProps extends Omit<Question, 'title'> {
  busy?: boolean;
  onYes: () => void;
  onNo: () => void;
}

/** The two buttons of a question, and what is typed before the one works. */
export function ConfirmForm({ children, action, danger, refuse = 'Leave it', typed, busy = false, onYes, onNo }: ConfirmFormProps) {
  const [text, setText] = useState('');
  const plain = (words: string): string => words.replaceAll(/[,\s]/g, '');
  const ready = !busy && (typed === undefined || plain(text) === plain(typed));
  return (
    <form
      class="stack"
      onSubmit={(e) => {
        e.preventDefault();
        if (ready) {
          onYes();
        }
      }}
    >
      {children}
      {typed !== undefined && (
        <Field label={`Type ${typed} to confirm`}>
          {(input) => (
            <input
              {...input}
              inputMode={/^[\d,]+$/.test(typed) ? 'numeric' : undefined}
              autocomplete="off"
              spellcheck={false}
              value={text}
              onInput={(e) => setText(e.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <div class="dialog-actions">
        <button type="button" class="button" onClick={onNo}>
          {refuse}
        </button>
        <button type="submit" class={`button ${danger ? 'danger' : 'primary'}`} disabled={!ready}>
          {action}
        </button>
      </div>
    </form>
  );
}
