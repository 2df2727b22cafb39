// When a job runs, while its schedule is typed.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ask } from '../api/client';
import { useLive } from '../api/live';
import type { Problem } from '../api/problem';
import type { Preview } from '../api/types';
import { serverNow } from '../clock';
import { fieldHints, fieldsOf } from '../cron';
import { previewOf, whenOf } from '../jobs';
import { isObject, type JsonObject } from '../merge';
import { Notes } from '../parts/Notes';
import { Panel } from '../parts/Panel';
import { viewerZone } from '../preferences';
import { clockNotes, knowsZone, parseSpan, timeText, UTC } from '../time';

/** How long a person may pause while typing, in ms. */
const typingPause = 250;

/** Whether an expression is one that need not be sent: a person is still typing. */
function isUnfinished(cron: string): boolean {
  return fieldsOf(cron) === undefined || fieldHints(cron).some((f) => f.fault !== undefined);
}

export function SchedulePreview({ body }: { body: JsonObject }) {
  const asked = useMemo(() => {
    const preview = previewOf(body);
    if (!preview) {
      return undefined;
    }
    const { cron, every } = preview.schedule ?? {};
    if (preview.schedule && (cron === undefined ? parseSpan(String(every)) === undefined : isUnfinished(String(cron)))) {
      return null;
    }
    return JSON.stringify({ ...preview, count: 10 });
  }, [body]);
  const [settled, setSettled] = useState(asked);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(asked), typingPause);
    return () => clearTimeout(timer);
  }, [asked]);
  const live = useLive<Preview>(
    typeof settled === 'string' ? `preview ${settled}` : null,
    (signal) => ask('/v1/schedules/preview', { method: 'POST', body: JSON.parse(settled ?? '{}') as unknown, signal }),
    { every: 0 },
  );
  // What was shown stays until the next answer: it would jump otherwise.
  const last = useRef<Preview | undefined>(undefined);
  if (live.data) {
    last.current = live.data;
  }
  const own = (isObject(body.schedule) && typeof body.schedule.timezone === 'string' && body.schedule.timezone) || UTC;
  const cron = isObject(body.schedule) && body.schedule.cron !== undefined;
  return (
    <aside class="preview" aria-label="When it will run">
      <Panel title="When it will run">
        {settled === undefined ? (
          <p class="muted">
            {
              {
                now: 'As soon as it is created.',
                at: 'Once, at its instant.',
                on: 'When its event comes.',
                after: 'When the jobs have ended.',
                cron: '',
                every: '',
              }[whenOf(body)]
            }
          </p>
        ) : settled === null ? (
          <p class="muted">Its times are shown here once the expression is whole.</p>
        ) : live.problem && !live.problem.passing ? (
          <PreviewFaults problem={live.problem} />
        ) : last.current ? (
          <PreviewTimes preview={last.current} own={cron && knowsZone(own) ? own : undefined} />
        ) : (
          <p class="muted">{live.problem ? live.problem.sentence : 'Asking for its next times.'}</p>
        )}
      </Panel>
    </aside>
  );
}

function PreviewFaults({ problem }: { problem: Problem }) {
  return (
    <div role="status" class="stack">
      <p>There is no time yet:</p>
      <ul class="faults">
        {problem.faults.length === 0 && <li>{problem.sentence}</li>}
        {problem.faults.map((f) => (
          <li key={f.location + f.message}>
            <strong>{f.location.replace(/^body\.(schedule\.)?/, '')}</strong> {f.message}
          </li>
        ))}
      </ul>
    </div>
  );
}

function PreviewTimes({ preview, own }: { preview: Preview; own: string | undefined }) {
  const viewer = viewerZone.value;
  const times = preview.times ?? [];
  const last = times.at(-1);
  const both = own !== undefined && own !== viewer;
  const changes = last ? clockNotes(serverNow(), Date.parse(last) + 1000, [own ?? viewer, viewer]) : [];
  return (
    <>
      <p role="status">
        <strong>{preview.description}</strong>
      </p>
      <Notes notes={[...(preview.notes ?? []), ...changes]} />
      <table class="preview-times">
        <caption class="hidden">Its next times</caption>
        <thead>
          <tr>
            <th scope="col">in {own ?? viewer}</th>
            {both && <th scope="col">in {viewer}</th>}
          </tr>
        </thead>
        <tbody>
          {times.map((at) => (
            <tr key={at}>
              <td>{timeText(at, own ?? viewer, { now: serverNow(), weekday: true, short: true })}</td>
              {both && <td>{timeText(at, viewer, { now: serverNow(), weekday: true, short: true })}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
