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
  danger?: boolean;
  /** What must be typed before: the number of things, or a name. */
  typed?: string;
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
  const [typed, setTyped] = useState('');
  const plain = (text: string): string => text.replaceAll(',', '').trim();
  const ready = question.typed === undefined || plain(typed) === plain(question.typed);
  return (
    <Dialog title={question.title} onClose={() => question.answer(false)}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (ready) {
            question.answer(true);
          }
        }}
      >
        {question.children}
        {question.typed !== undefined && (
          <Field label={`Type ${question.typed} to confirm`}>
            {(input) => (
              <input
                {...input}
                autocomplete="off"
                spellcheck={false}
                value={typed}
                onInput={(e) => setTyped(e.currentTarget.value)}
              />
            )}
          </Field>
        )}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={() => question.answer(false)}>
            Leave it
          </button>
          <button type="submit" class={`button ${question.danger ? 'danger' : 'primary'}`} disabled={!ready}>
            {question.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
