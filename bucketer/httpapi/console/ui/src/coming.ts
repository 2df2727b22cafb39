// The coming hour of one tenant, minute by minute: which runs are due in each, and of what. Pure.

const minute = 60_000;

/** A run that is planned already, as the API lists it. */
export interface PlannedRun {
  id: string;
  job_id?: string | undefined;
  job_name?: string | undefined;
  task?: string | undefined;
  workflow?: string | undefined;
  step?: string | undefined;
  trigger: string;
  due_at: string;
}

/** A time at which a recurring job or workflow is due. */
export interface Occurrence {
  job: string;
  name: string;
  workflow: boolean;
  dueAt: string;
}

/** Runs of a minute that are of one thing. */
export interface ComingGroup {
  kind: 'job' | 'workflow' | 'task' | 'one-off';
  /** Of the job, the workflow or the task; "" for one-off jobs that name no task. */
  name: string;
  recurring: boolean;
  runs: number;
  /** When the first of them is due, in ms. */
  first: number;
}

export interface ComingMinute {
  at: number;
  runs: number;
  recurring: number;
  oneOff: number;
  /** The largest first. */
  groups: ComingGroup[];
  /** Not all of the minute was looked through: there are more. */
  atLeast: boolean;
}

export interface Coming {
  /** Runs that are planned, by their due times. */
  planned: readonly PlannedRun[];
  /** All that is planned before this is among them, in ms. */
  reached: number;
  /** Times of recurring jobs; those that are planned already may be among them. */
  occurrences: readonly Occurrence[];
  /** About how many runs are planned in a minute, by its begin, for minutes that were not looked through. */
  estimates: ReadonlyMap<number, number>;
  /** The stretch, in ms. */
  from: number;
  to: number;
}

/** The minutes of the stretch in which something is due, in their order. */
export function comingMinutes({ planned, reached, occurrences, estimates, from, to }: Coming): ComingMinute[] {
  const minutes = new Map<number, ComingMinute>();
  const groups = new Map<string, ComingGroup>();
  const at = (due: number): ComingMinute => {
    const begin = Math.floor(due / minute) * minute;
    const known = minutes.get(begin);
    const made = known ?? { at: begin, runs: 0, recurring: 0, oneOff: 0, groups: [], atLeast: begin + minute > reached };
    minutes.set(begin, made);
    return made;
  };
  const add = (due: number, kind: ComingGroup['kind'], name: string, recurring: boolean): void => {
    if (due < from || due >= to) {
      return;
    }
    const m = at(due);
    m.runs++;
    m[recurring ? 'recurring' : 'oneOff']++;
    const key = `${m.at} ${kind} ${recurring} ${name}`;
    let group = groups.get(key);
    if (!group) {
      group = { kind, name, recurring, runs: 0, first: due };
      groups.set(key, group);
      m.groups.push(group);
    }
    group.runs++;
    group.first = Math.min(group.first, due);
  };
  const known = new Set<string>();
  for (const run of planned) {
    const recurring = run.trigger === 'schedule' && run.job_id !== undefined && run.job_id !== run.id && !run.step;
    if (recurring) {
      known.add(`${run.job_id} ${run.due_at}`);
      add(Date.parse(run.due_at), run.workflow ? 'workflow' : 'job', run.workflow || run.job_name || run.job_id || '', true);
    } else {
      add(Date.parse(run.due_at), run.task ? 'task' : run.workflow ? 'workflow' : 'one-off', run.task || run.workflow || '', false);
    }
  }
  for (const o of occurrences) {
    const key = `${o.job} ${o.dueAt}`;
    if (!known.has(key)) {
      known.add(key);
      add(Date.parse(o.dueAt), o.workflow ? 'workflow' : 'job', o.name, true);
    }
  }
  for (const [begin, runs] of estimates) {
    if (runs > 0 && begin >= from && begin < to && begin + minute > reached) {
      const m = at(begin);
      // Of recurring jobs more may be known than is planned.
      m.runs = Math.max(m.runs, runs);
    }
  }
  const out = [...minutes.values()].sort((a, b) => a.at - b.at);
  for (const m of out) {
    m.groups.sort((a, b) => b.runs - a.runs || a.first - b.first || a.name.localeCompare(b.name));
  }
  return out;
}

/** The minute in which most is due; of several the first. Undefined: nothing is. */
export function busiestOf(minutes: readonly ComingMinute[]): ComingMinute | undefined {
  return minutes.reduce<ComingMinute | undefined>((most, m) => (most === undefined || m.runs > most.runs ? m : most), undefined);
}

/** The later due times of a job that runs every so often, up to `to` in ms; its next one is not among them. */
export function laterTimes(next: string, everyMs: number, to: number): string[] {
  const times: string[] = [];
  for (let t = Date.parse(next) + everyMs; t < to && everyMs > 0 && times.length < 3600; t += everyMs) {
    times.push(new Date(t).toISOString());
  }
  return times;
}

/** Whether a cron expression may name several times of one hour. */
export function mayRepeatInHour(cron: string): boolean {
  const fields = cron.trim().split(/\s+/);
  if (fields.length < 5) {
    return false; // @hourly and rarer
  }
  const [minuteField = '', second = '0'] = fields.length === 5 ? [fields[0]] : [fields[1], fields[0]];
  return ![minuteField, second].every((field) => /^(?:\d+|H)$/.test(field));
}
