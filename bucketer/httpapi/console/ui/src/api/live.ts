// What the page shows stays up to date by asking again and again: the browser's way to the node needs
// nothing else, and it passes every proxy. It stops while nobody looks, and asks less often while the
// node is in trouble. Of one question at most one request is under way, whoever asks.

import { computed, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { localNow } from '../clock';
import { waitFor } from './again';
import { chosenTenant } from './client';
import { asProblem, isAbort, type Problem } from './problem';

/** Intervals, in ms: of what a person watches, of lists, of what hardly changes. */
export const fast = 2000;
export const steady = 5000;
export const slow = 30_000;

/** Whether the page keeps itself up to date. A person may stop it to read in peace. */
export const liveOn = signal(true);

type Fetcher<T> = (signal: AbortSignal) => Promise<T>;

interface Answer<T> {
  data: T | undefined;
  /** When data came, by Date.now(). */
  at: number | undefined;
  /** Why the last try failed; undefined if it did not. */
  problem: Problem | undefined;
}

/** What a question is answered with, and how old that is. */
export interface Live<T> extends Answer<T> {
  /** It is asked, and nothing has come yet. */
  loading: boolean;
  /** Asks at once. */
  refresh: () => void;
}

/** A question that somebody on the page asks. */
class Question {
  readonly answer: Signal<Answer<unknown>> = signal({
    data: undefined,
    at: undefined,
    problem: undefined,
  });
  fetcher: Fetcher<unknown> = () => Promise.reject(new Error('nobody asks'));
  /** Who asks: how often, in ms (0: once), and whether they want it held still. */
  readonly askers = new Set<{ every: number; hold: boolean }>();

  #timer: ReturnType<typeof setTimeout> | undefined;
  #flight: AbortController | undefined;
  #failures = 0;

  /** The shortest interval that is asked for; 0: it is asked once. */
  get every(): number {
    const wanted = [...this.askers].map((a) => a.every).filter((ms) => ms > 0);
    return wanted.length === 0 ? 0 : Math.min(...wanted);
  }

  get held(): boolean {
    return [...this.askers].some((a) => a.hold);
  }

  /** Asks now, unless it is being asked. */
  ask = (): void => {
    if (this.#flight) {
      return;
    }
    this.#stopTimer();
    const flight = new AbortController();
    this.#flight = flight;
    void this.fetcher(flight.signal).then(
      (data) => this.#landed(flight, { data, at: Date.now(), problem: undefined }),
      (thrown: unknown) => {
        if (isAbort(thrown) && flight.signal.aborted) {
          return;
        }
        const { data, at } = this.answer.peek();
        this.#landed(flight, { data, at, problem: asProblem(thrown) });
      },
    );
  };

  /** Asks now, though it is being asked: what comes then may be older than a change. */
  askAnew(): void {
    this.#flight?.abort();
    this.#flight = undefined;
    this.ask();
  }

  #landed(flight: AbortController, answer: Answer<unknown>): void {
    if (this.#flight !== flight) {
      return;
    }
    this.#flight = undefined;
    this.#failures = answer.problem ? this.#failures + 1 : 0;
    this.answer.value = answer;
    this.schedule();
  }

  /** Has it asked again when it is time. */
  schedule(): void {
    this.#stopTimer();
    if (this.askers.size === 0 || this.#flight || document.hidden || !liveOn.peek() || this.held) {
      return;
    }
    const { at, problem } = this.answer.peek();
    const wait = waitFor({ every: this.every, at, problem, failures: this.#failures }, Date.now());
    if (wait !== undefined) {
      this.#timer = setTimeout(this.ask, wait);
    }
  }

  /** Nobody asks any more. */
  drop(): void {
    this.#stopTimer();
    this.#flight?.abort();
    this.#flight = undefined;
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

const questions = new Map<string, Question>();
/** How many answers that nobody asks for are remembered, for who goes back. */
const remembered = 40;
/** Grows when somebody begins or ends to ask. */
const asked = signal(0);

function questionOf(key: string): Question {
  let question = questions.get(key);
  if (!question) {
    question = new Question();
    questions.set(key, question);
  } else {
    questions.delete(key); // the latest is last
    questions.set(key, question);
  }
  for (const [name, old] of questions) {
    if (questions.size <= remembered) {
      break;
    }
    if (old.askers.size === 0 && old !== question) {
      questions.delete(name);
    }
  }
  return question;
}

function all(act: (question: Question) => void): void {
  for (const question of questions.values()) {
    if (question.askers.size > 0) {
      act(question);
    }
  }
}

document.addEventListener('visibilitychange', () =>
  // Who comes back does not wait out the pause of a node that was in trouble.
  all((q) => (!document.hidden && q.answer.peek().problem ? q.ask() : q.schedule())),
);
addEventListener('online', () => all((q) => q.ask()));
liveOn.subscribe(() => all((q) => q.schedule()));

export interface LiveOptions {
  /** How often it is asked, in ms; 0: once. Default: steady. */
  every?: number;
  /** Do not ask again for now: the person selects, or reads. */
  hold?: boolean;
}

const nothing: Answer<never> = { data: undefined, at: undefined, problem: undefined };

/**
 * Asks a question, and again every so often. The key names the question: as long as it is the same,
 * the answer is kept and asked for anew; with another key the old answer is gone at once. A key of
 * null asks nothing. The tenant is part of every key.
 */
export function useLive<T>(
  key: string | null,
  fetcher: (signal: AbortSignal) => Promise<T>,
  options: LiveOptions = {},
): Live<T> {
  const { every = steady, hold = false } = options;
  const whole = key === null ? null : `${chosenTenant.value} ${key}`;
  const question = useMemo(() => (whole === null ? undefined : questionOf(whole)), [whole]);
  if (question) {
    question.fetcher = fetcher;
  }
  useEffect(() => {
    if (!question) {
      return undefined;
    }
    const asker = { every, hold };
    question.askers.add(asker);
    const { at, problem } = question.answer.peek();
    if (at === undefined || problem !== undefined || (!hold && Date.now() - at > Math.max(every, 1000))) {
      question.ask();
    } else {
      question.schedule();
    }
    asked.value++;
    return () => {
      question.askers.delete(asker);
      asked.value++;
      // Whoever asks it next in the same breath keeps it: a change of the interval is no end.
      queueMicrotask(() => {
        if (question.askers.size === 0) {
          question.drop();
        }
      });
    };
  }, [question, every, hold]);
  const answer = (question?.answer.value ?? nothing) as Answer<T>;
  const refresh = useRef(() => {});
  refresh.current = () => question?.ask();
  const loading = question !== undefined && answer.data === undefined && answer.problem === undefined;
  return { ...answer, loading, refresh: useMemo(() => () => refresh.current(), []) };
}

/** Asks everything on the page at once: after a change, or when the person wants it. */
export function refreshAll(): void {
  all((q) => q.askAnew());
}

/** Forgets every answer: another person may come. */
export function forgetAll(): void {
  for (const [key, question] of questions) {
    if (question.askers.size === 0) {
      questions.delete(key);
    }
  }
}

/** How fresh what the page shows is. */
export interface Freshness {
  /** When the oldest of what is kept up to date came, by Date.now(); undefined: nothing is. */
  at: number | undefined;
  /** It is older than it should be. */
  stale: boolean;
  /** It is held still because somebody selects or reads. */
  held: boolean;
}

/** The oldest of all that the page keeps up to date. */
export const freshness: ReadonlySignal<Freshness> = computed(() => {
  void asked.value;
  let oldest: number | undefined;
  let stale = false;
  let held = false;
  for (const question of questions.values()) {
    if (question.askers.size === 0 || question.every === 0) {
      continue;
    }
    const { at, problem } = question.answer.value;
    if (at === undefined || (problem && !problem.passing && problem.status < 500)) {
      continue; // its own panel says what is wrong
    }
    held ||= question.held;
    oldest = oldest === undefined ? at : Math.min(oldest, at);
    stale ||= isStale(at, question.every, localNow.value) && !question.held;
  }
  return { at: oldest, stale, held };
});

/** An answer that is older than three intervals and a bit is stale. */
export function isStale(at: number, every: number, now: number): boolean {
  return now - at > 3 * every + 4000;
}
