// What a person had typed in a form when the session ended. It is there again after the log-in, for the
// same person at the same place. It lives in the memory of the page, and nowhere else.

import { useEffect, useRef, useState } from 'preact/hooks';
import { session, who } from './api/session';
import { say } from './parts/Toasts';

interface Draft {
  place: string;
  person: string;
  typed: unknown;
}

let draft: Draft | undefined;

function here(): Omit<Draft, 'typed'> {
  const w = who.peek();
  return { place: location.hash, person: `${w?.tenant}/${w?.actor}` };
}

/** What had been typed here; undefined: nothing. A form asks once, when it is made. */
export function useDraft<T>(): T | undefined {
  const [kept] = useState(() => {
    const { place, person } = here();
    const found = draft?.place === place && draft.person === person ? (draft.typed as T) : undefined;
    draft = undefined;
    return found;
  });
  useEffect(() => {
    if (kept !== undefined) {
      say('What you had typed when the session ended is here again.');
    }
  }, [kept]);
  return kept;
}

/** Keeps what is typed if the session ends; undefined: nothing is worth it. */
export function useKeepDraft<T>(typed: T | undefined): void {
  const latest = useRef(typed);
  latest.current = typed;
  const at = useRef(here());
  useEffect(
    () => () => {
      if (session.peek().state === 'out' && latest.current !== undefined) {
        draft = { ...at.current, typed: latest.current };
      }
    },
    [],
  );
}
