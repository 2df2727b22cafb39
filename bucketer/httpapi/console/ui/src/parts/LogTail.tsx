// What the worker of a run logged, as it comes. It follows the end, and stands still once somebody has
// scrolled away from it.

import { useEffect, useRef, useState } from 'preact/hooks';
import { answer, api } from '../api/client';
import { liveOn } from '../api/live';
import { asProblem, isAbort, type Problem } from '../api/problem';
import type { LogLine } from '../api/types';
import { viewerZone } from '../preferences';
import { plain } from '../text';
import { labelOf } from '../time';
import { count } from '../words';
import { Missing } from './Panel';
import { SaveButton } from './JsonView';

/** How long to wait for more, in ms. */
const pause = 1500;
/** How many lines are kept on the page. */
const most = 5000;
const pageSize = 500;

interface Tail {
  lines: readonly LogLine[];
  /** Lines that came before those, and are not kept here. */
  dropped: number;
  /** The run has ended, and all was read. */
  over: boolean;
  problem: Problem | undefined;
}

const nothing: Tail = { lines: [], dropped: 0, over: false, problem: undefined };

function useTail(run: string, attempt: number | undefined): Tail & { again: () => void } {
  const [tail, setTail] = useState<Tail>(nothing);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const gone = new AbortController();
    setTail(nothing);
    void (async () => {
      let cursor: string | undefined;
      let failures = 0;
      while (!gone.signal.aborted) {
        if (document.hidden || !liveOn.peek()) {
          await sleep(pause);
          continue;
        }
        try {
          const query = { limit: pageSize, ...(cursor ? { cursor } : {}), ...(attempt ? { attempt } : {}) };
          const page = await answer(
            api.GET('/v1/runs/{id}/logs', { params: { path: { id: run }, query }, signal: gone.signal }),
          );
          failures = 0;
          cursor = page.next_cursor || undefined;
          const items = page.items ?? [];
          setTail((old) => {
            const lines = [...old.lines, ...items];
            const extra = Math.max(0, lines.length - most);
            return {
              lines: lines.slice(extra),
              dropped: old.dropped + extra,
              over: cursor === undefined,
              problem: undefined,
            };
          });
          if (cursor === undefined) {
            return;
          }
          if (items.length < pageSize) {
            await sleep(pause);
          }
        } catch (thrown) {
          if (isAbort(thrown)) {
            return;
          }
          const problem = asProblem(thrown);
          if (problem.staleCursor) {
            // another node answers: from the begin
            cursor = undefined;
            setTail(nothing);
            continue;
          }
          setTail((old) => ({ ...old, problem }));
          if (!problem.passing) {
            return;
          }
          failures++;
          await sleep(Math.min(pause * 2 ** failures, 30_000));
        }
      }
    })();
    return () => gone.abort();
  }, [run, attempt, round]);
  return { ...tail, again: () => setRound(round + 1) };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function LogTail({ run, attempt }: { run: string; attempt?: number | undefined }) {
  const tail = useTail(run, attempt);
  const box = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);
  const zone = viewerZone.value;
  useEffect(() => {
    if (following && box.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [tail.lines, following]);
  if (tail.problem && tail.lines.length === 0) {
    return <Missing problem={tail.problem} what="the log of this run" retry={tail.again} />;
  }
  const first = tail.lines[0]?.at;
  const offset = first ? labelOf(first, zone).offset : '';
  return (
    <div class="stack">
      <div class="row">
        <span class="muted">
          {count(tail.lines.length, 'line')}
          {tail.dropped > 0 && `, ${count(tail.dropped, 'earlier one')} not shown`}
          {offset !== '' && `, times in ${zone} ${offset}`}
        </span>
        <span class="age" role="status">
          {tail.over ? 'the run has ended' : following && liveOn.value ? 'follows the end' : 'stands still'}
        </span>
        {tail.problem && <span class="age stale">Nothing new: {tail.problem.sentence}</span>}
        {!following && (
          <button type="button" class="button small" onClick={() => setFollowing(true)}>
            Follow the end
          </button>
        )}
        {tail.lines.length > 0 && (
          <SaveButton
            file={`${run}.log`}
            text={tail.lines
              .map((l) => `${l.at ?? ''} [${l.attempt}] ${l.text ?? `(${l.dropped} lines were not kept)`}`)
              .join('\n')}
          />
        )}
      </div>
      <div
        class="log"
        role="log"
        aria-live="off"
        aria-label="Log of the run"
        tabIndex={0}
        dir="ltr"
        ref={box}
        onScroll={(e) => {
          const { scrollTop, scrollHeight, clientHeight } = e.currentTarget;
          const atEnd = scrollHeight - scrollTop - clientHeight < 24;
          if (atEnd !== following) {
            setFollowing(atEnd);
          }
        }}
      >
        {tail.lines.length === 0 && (
          <p class="muted">{tail.over ? 'Its worker logged nothing.' : 'Nothing was logged so far.'}</p>
        )}
        {tail.lines.map((line, i) => (
          <div key={tail.dropped + i} class="log-line">
            <span class="log-at">{line.at ? labelOf(line.at, zone, { now: line.at, millis: true }).clock : ''}</span>
            <span class="log-attempt">{line.attempt}</span>
            {line.dropped ? (
              <em class="muted">{count(line.dropped, 'line was', 'lines were')} not kept here</em>
            ) : (
              <bdi>{plain(line.text ?? '')}</bdi>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}
