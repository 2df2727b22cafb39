// Dead letters by what they have in common: the task, and how the error begins. Pure.

export interface LetterLike {
  id: string;
  task?: string | undefined;
  job_name?: string | undefined;
  outcome: string;
  error?: string | undefined;
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
  letters: readonly T[];
  /** When the first and the last of them failed. */
  first: string;
  last: string;
}

const longestHead = 120;

/** A status of HTTP, which says something, or else a number, which does not. */
const status = /((?:status|answered|HTTP\/[\d.]+|HTTP|code)\s*:?\s*[1-5]\d\d\b)|\d+(?:\.\d+)*/gi;

/**
 * How an error begins, without what differs from one to the next: numbers, ids, times, what stands in
 * quotes. Statuses of HTTP stay.
 */
export function errorHead(letter: Pick<LetterLike, 'error' | 'outcome' | 'status_code'>): string {
  const line = (letter.error ?? '').split('\n', 1)[0] ?? '';
  if (line.trim() === '') {
    const words: Record<string, string> = { timed_out: 'timed out', lost: 'lost with its executor' };
    return letter.status_code ? `answered ${letter.status_code}` : (words[letter.outcome] ?? letter.outcome);
  }
  const head = line
    .replace(/\b[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}\b/gi, '<id>')
    .replace(/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g, '<time>')
    .replace(/"(?:[^"\\]|\\.)*"/g, '"…"')
    .replace(/\b(?:0x)?(?=[a-z]*\d)[\da-f]{12,}\b/gi, '<hex>')
    .replace(status, (digits: string, kept?: string) => kept ?? (digits.length < 2 ? digits : '<n>'))
    .replace(/\s+/g, ' ')
    .trim();
  return head.length <= longestHead ? head : head.slice(0, longestHead - 1).trimEnd() + '…';
}

export function groupLetters<T extends LetterLike>(letters: readonly T[]): LetterGroup<T>[] {
  const groups = new Map<string, T[]>();
  const heads = new Map<string, { task: string; head: string }>();
  for (const letter of letters) {
    const task = letter.task ?? '';
    const head = errorHead(letter);
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
      const times = all.map((l) => l.failed_at).sort();
      return { key, task, job: key.split('\n')[1] ?? '', head, letters: all, first: times[0] ?? '', last: times.at(-1) ?? '' };
    })
    .sort((a, b) => b.letters.length - a.letters.length || b.last.localeCompare(a.last));
}

/** Whether it is of a workflow run, as far as the error tells: that names the step that failed. */
export function isOfWorkflow(letter: Pick<LetterLike, 'task' | 'error'>): boolean {
  return !letter.task && /^step "/.test(letter.error ?? '');
}

/** What an operation of the server can select that is exactly these letters, if all were listed. */
export function selects<T extends LetterLike>(
  group: LetterGroup<T>,
  groups: readonly LetterGroup<T>[],
): 'all of its task' | 'only some of its task' | 'no task' {
  if (group.task === '') {
    return 'no task';
  }
  return groups.some((g) => g !== group && g.task === group.task) ? 'only some of its task' : 'all of its task';
}
