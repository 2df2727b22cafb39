// What became of dead letters that were run again: each with its new run, and how that stands.

import type { DeadLetter } from '../api/types';
import { helpedWords, isOfWorkflow, replaysOf } from '../letters';
import { href } from '../router';
import { hasEnded } from '../runs';
import { Progress, type ProgressPart } from './Progress';
import { StateBadge } from './StateBadge';
import { Table, type Column } from './Table';
import { TimeLabel } from './TimeLabel';

/** How many are shown one by one. */
const shownAtMost = 200;

const tones: Record<string, ProgressPart['tone']> = { succeeded: 'good', failed: 'bad', running: 'run' };

/** Whether all that is known of them is what it will be. */
export function haveEnded(letters: readonly DeadLetter[]): boolean {
  return letters.every((l) => l.replay_state === undefined || hasEnded({ state: l.replay_state }));
}

export function Replays({ letters }: { letters: readonly DeadLetter[] }) {
  const latest = letters.toSorted((a, b) => (b.replayed_at ?? '').localeCompare(a.replayed_at ?? ''));
  return (
    <>
      {letters.length > 0 && (
        <p role="status">
          <strong>{helpedWords(letters)}</strong>
        </p>
      )}
      {letters.length > 0 && (
        <Progress
          label="How the new runs stand"
          of={letters.length}
          parts={replaysOf(letters).map(([state, n]) => ({
            name: state === 'failed' ? 'failed again' : state === 'left' ? 'not known any more' : state,
            n,
            tone: tones[state] ?? 'still',
          }))}
        />
      )}
      <Table
        caption="The new runs"
        columns={columns}
        rows={latest.slice(0, shownAtMost)}
        rowKey={(l) => l.id}
        rowHref={(l) => href(isOfWorkflow(l) ? `/workflow-runs/${l.replay}` : `/runs/${l.replay}`)}
        empty={<p class="muted">None was replayed.</p>}
      />
      {letters.length > shownAtMost && (
        <p class="muted">The {shownAtMost} that were replayed last are shown.</p>
      )}
    </>
  );
}

const columns: Column<DeadLetter>[] = [
  { head: 'New run of', kind: 'main', cell: (l) => <bdi>{l.job_name || l.task || 'one-off job'}</bdi> },
  { head: 'It', cell: (l) => (l.replay_state ? <StateBadge state={l.replay_state} /> : <span class="muted">has left</span>) },
  { head: 'Replayed', cell: (l) => <TimeLabel at={l.replayed_at} relative /> },
  {
    head: 'What failed',
    cell: (l) => (
      <a class="said" href={href(`/dead-letters/${l.id}`)}>
        <bdi>{l.error ?? l.outcome}</bdi>
      </a>
    ),
  },
];
