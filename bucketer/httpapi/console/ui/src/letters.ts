// Dead letters by what they have in common: the task, and what kind of error the server says it is. Pure.

import { someOf } from './operations';
import { count, number } from './words';

/** What dead letters are asked for, besides their times, as the address of their list has it. */
export interface LettersAsked {
  task: string;
  job: string;
  label: readonly string[];
}

export interface LetterLike {
  id: string;
  task?: string | undefined;
  job_name?: string | undefined;
  outcome: string;
  error?: string | undefined;
  /** Absent from a node of an older version. */
  error_pattern?: string | undefined;
  status_code?: number | undefined;
  due_at: string;
  failed_at: string;
}

export interface LetterGroup<T extends LetterLike> {
  /** Stays the same while the list changes. */
  key: string;
  /** "" for work that a job states inline. */
  task: string;
  /** The job's name, where no task has one and all are of one job; else "". */
  job: string;
  head: string;
  /** What the last of them says, where that is more. */
  such: string;
  letters: readonly T[];
  /** When the first and the last of them failed. */
  first: string;
  last: string;
}

export function groupLetters<T extends LetterLike>(letters: readonly T[]): LetterGroup<T>[] {
  const groups = new Map<string, T[]>();
  const heads = new Map<string, { task: string; head: string }>();
  for (const letter of letters) {
    const task = letter.task ?? '';
    const head = letter.error_pattern ?? letter.error?.split('\n', 1)[0] ?? letter.outcome;
    const key = `${task}\n${task === '' ? (letter.job_name ?? '') : ''}\n${head}`;
    heads.set(key, { task, head });
    const group = groups.get(key);
    if (group) {
      group.push(letter);
    } else {
      groups.set(key, [letter]);
    }
  }
  return [...groups]
    .map(([key, all]) => {
      const { task = '', head = '' } = heads.get(key) ?? {};
      const sorted = all.toSorted((a, b) => a.failed_at.localeCompare(b.failed_at));
      const [first, last] = [sorted[0], sorted.at(-1)];
      const such = last?.error === head ? '' : (last?.error ?? '');
      return { key, task, job: key.split('\n')[1] ?? '', head, such, letters: all, first: first?.failed_at ?? '', last: last?.failed_at ?? '' };
    })
    .sort((a, b) => b.letters.length - a.letters.length || b.last.localeCompare(a.last));
}

/** Whether it is of a workflow run, as far as the error tells: that names the step that failed. */
export function isOfWorkflow(letter: Pick<LetterLike, 'task' | 'error'>): boolean {
  return !letter.task && /^step "/.test(letter.error ?? '');
}

/** The fields of an operation's filter that select what one of dead letters is for. */
export interface LettersSelected {
  from: string;
  to: string;
  task: string;
  error_pattern: string;
  job?: string;
  label?: string;
  labels?: string[];
}

/** What an operation selects that is exactly those letters of a group of a list; undefined: it cannot. */
export function filterOfGroup(group: LetterGroup<LetterLike>, asked: Omit<LettersAsked, 'task'>): LettersSelected | undefined {
  const pattern = group.letters[0]?.error_pattern;
  if (group.task === '' || !pattern) {
    return undefined; // those of no task cannot be told from those of any
  }
  const times = group.letters.map((l) => Date.parse(l.due_at));
  return {
    from: new Date(Math.min(...times)).toISOString(),
    to: new Date(Math.max(...times) + 1).toISOString(),
    task: group.task,
    error_pattern: pattern,
    ...(asked.job === '' ? {} : { job: asked.job }),
    ...someOf('label', 'labels', asked.label),
  };
}

/** How the runs stand that letters were replayed as, the most frequent first; "left" where that is not known. */
export function replaysOf(letters: readonly { replay_state?: string | undefined }[]): [state: string, n: number][] {
  const counts = new Map<string, number>();
  for (const { replay_state: state = 'left' } of letters) {
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

/** Whether a replay helped, in a sentence: "9 of 12 new runs have succeeded, 2 failed again, 1 goes on." */
export function helpedWords(letters: readonly { replay_state?: string | undefined }[]): string {
  const of = new Map(replaysOf(letters));
  const n = (...states: string[]): number => states.reduce((sum, state) => sum + (of.get(state) ?? 0), 0);
  const [good, bad, left] = [n('succeeded'), n('failed', 'missed'), n('left')];
  const open = letters.length - good - bad - left - n('cancelled', 'skipped');
  const parts = [
    `${number(good)} of ${count(letters.length, 'new run')} ${good === 1 ? 'has' : 'have'} succeeded`,
    bad > 0 && `${number(bad)} failed again`,
    open > 0 && `${number(open)} ${open === 1 ? 'goes' : 'go'} on`,
    n('cancelled', 'skipped') > 0 && `${number(n('cancelled', 'skipped'))} never ran`,
    left > 0 && `of ${number(left)} it is not known any more`,
  ];
  return `${parts.filter(Boolean).join(', ')}.`;
}
