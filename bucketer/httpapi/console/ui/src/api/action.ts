// What a person does: one request, its progress, and what is wrong with it.

import { useRef, useState } from 'preact/hooks';
import { say } from '../parts/Toasts';
import { refreshAll } from './live';
import { asProblem, isAbort, type Problem } from './problem';

export interface Action {
  /** It is under way. */
  busy: boolean;
  /** Why the last one failed; undefined once the next begins. */
  problem: Problem | undefined;
  /**
   * Does it, once at a time, and returns its answer, or undefined if it failed. `said` is told when it
   * is done. What the page shows is asked for anew.
   */
  run: <T>(act: () => Promise<T>, said?: string | ((answer: T) => string)) => Promise<T | undefined>;
  clear: () => void;
}

/**
 * An action of a view. Its problem is shown by the view (<Refusal problem={…}>), or as a toast where
 * `loud` asks for that: for buttons that have no place of their own.
 */
export function useAction(options: { loud?: boolean } = {}): Action {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const running = useRef(false);
  const { loud = false } = options;
  return {
    busy,
    problem,
    clear: () => setProblem(undefined),
    run: async (act, said) => {
      if (running.current) {
        return undefined;
      }
      running.current = true;
      setBusy(true);
      setProblem(undefined);
      try {
        const answered = await act();
        if (said !== undefined) {
          say(typeof said === 'string' ? said : said(answered));
        }
        refreshAll();
        return answered;
      } catch (thrown) {
        if (!isAbort(thrown)) {
          const wrong = asProblem(thrown);
          setProblem(wrong);
          if (loud) {
            say(wrong.sentence, 'bad');
          }
        }
        return undefined;
      } finally {
        running.current = false;
        setBusy(false);
      }
    },
  };
}
