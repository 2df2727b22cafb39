// Imports a file of jobs, one a line: dropped here, sent in pieces, and gone on with after a reload.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { may, tenant } from '../api/session';
import { localNow, serverNow } from '../clock';
import {
  beginImport,
  forgetImport,
  holdImport,
  identify,
  importedFile,
  importing,
  keptImport,
  resumeImport,
  stopImport,
  type Failure,
  type Importing,
} from '../importing';
import { confirm } from '../parts/Confirm';
import { Command, Empty } from '../parts/Empty';
import { Facts } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { saveFile } from '../parts/JsonView';
import { MayNot } from '../parts/MayNot';
import { Note } from '../parts/Note';
import { Panel } from '../parts/Panel';
import { Progress } from '../parts/Progress';
import { Refusal } from '../parts/Refusal';
import { StateBadge } from '../parts/StateBadge';
import { Table, type Column } from '../parts/Table';
import { View } from '../parts/View';
import { href } from '../router';
import type { ViewParams } from '../routes';
import { sameFile, unfit, type FileId, type Progress as Kept } from '../slices';
import { coarse } from '../time';
import { bytes, count, number, percent } from '../words';

export function Import(_props: ViewParams) {
  const at = importing.value;
  useEffect(() => {
    // A file that misses its place would be opened by the browser, in place of this page.
    addEventListener('dragover', stay);
    addEventListener('drop', stay);
    return () => {
      removeEventListener('dragover', stay);
      removeEventListener('drop', stay);
    };
  }, []);
  return (
    <View
      title="Import"
      about="Makes many jobs of a file: one job a line, as JSON. It is sent in pieces, and goes on while you look at other views."
    >
      {!may('operator') ? (
        <MayNot what="create jobs" />
      ) : at ? (
        <UnderWay at={at} />
      ) : (
        <Pick />
      )}
    </View>
  );
}

function stay(e: DragEvent): void {
  e.preventDefault();
}

interface Picked {
  file: File;
  id: FileId;
  unfit: ReturnType<typeof unfit>;
}

function Pick() {
  const [kept, setKept] = useState<Kept | undefined>(keptImport);
  const [picked, setPicked] = useState<Picked | undefined>(undefined);
  const [fault, setFault] = useState('');
  const [over, setOver] = useState(false);
  const [checkOnly, setCheckOnly] = useState(false);
  const [addKeys, setAddKeys] = useState(true);
  const take = async (file: File | undefined): Promise<void> => {
    setFault('');
    if (!file) {
      return;
    }
    if (file.size === 0) {
      setFault('The file is empty, or is a folder.');
      return;
    }
    try {
      const { id, begin } = await identify(file);
      setPicked({ file, id, unfit: unfit(begin, file.name) });
    } catch (thrown) {
      setFault(`The file cannot be read: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
    }
  };
  const matches = kept !== undefined && picked !== undefined && sameFile(kept.file, picked.id);
  const otherTenant = kept !== undefined && kept.tenant !== tenant.value;
  const begin = (): void => {
    if (picked) {
      beginImport(picked.file, picked.id, { checkOnly, addKeys });
    }
  };
  return (
    <>
      {kept && (
        <Note
          tone="warn"
          icon="pause"
          more={
            <button
              type="button"
              class="button small"
              onClick={() => {
                forgetImport();
                setKept(undefined);
              }}
            >
              Forget it
            </button>
          }
        >
          An import of <bdi>{kept.file.name}</bdi> ({bytes(kept.file.size)}) stopped when the page was loaded anew:{' '}
          {percent(kept.at, kept.file.size)} of it is done, {count(kept.lines, 'line')}. <strong>Pick the file again and it goes on.</strong>
          {otherTenant && ` It was for the tenant ${kept.tenant}: switch to that first.`}
        </Note>
      )}
      <Panel title="The file">
        <div
          class={`drop ${over ? 'over' : ''}`}
          onDragOver={(e) => {
            e.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(e) => {
            e.preventDefault();
            setOver(false);
            const files = e.dataTransfer?.files;
            void take(files?.[0]).then(() => {
              if (files && files.length > 1) {
                setFault('Several files were dropped: the first one is taken. Import one after the other.');
              }
            });
          }}
        >
          <p class="drop-title">Drop a file here</p>
          <p class="muted">NDJSON, of any length: a million lines are no trouble.</p>
          <label class="button">
            <input
              class="hidden"
              type="file"
              accept=".ndjson,.jsonl,.json,.txt,application/x-ndjson"
              data-search=""
              onChange={(e) => {
                void take(e.currentTarget.files?.[0]);
                e.currentTarget.value = '';
              }}
            />
            Choose a file
          </label>
        </div>
        {fault !== '' && (
          <p class="field-wrong" role="alert">
            {fault}
          </p>
        )}
        {picked && (
          <div class="stack">
            <Facts
              facts={[
                ['File', <bdi key="file">{picked.file.name}</bdi>],
                ['Size', bytes(picked.file.size)],
                ['For the tenant', tenant.value],
              ]}
            />
            {picked.unfit ? (
              <Note tone="bad" alert more={<Command text={picked.unfit.command} />}>
                {picked.unfit.what}
              </Note>
            ) : (
              <>
                {matches ? (
                  <p role="status">
                    <Icon name="check" size={14} /> It is the file that was begun: it goes on after line {number(kept.lines)}.
                  </p>
                ) : (
                  <>
                    {kept && <p class="toned tone-warn">It is another file than the one that was begun: that one is forgotten.</p>}
                    <label class="check">
                      <input type="checkbox" checked={checkOnly} onChange={(e) => setCheckOnly(e.currentTarget.checked)} />
                      Only check the lines, and create nothing
                    </label>
                    <label class="check">
                      <input type="checkbox" checked={addKeys} onChange={(e) => setAddKeys(e.currentTarget.checked)} />
                      Give each line without a key one, so that a line that is sent twice makes one job
                    </label>
                    {!addKeys && (
                      <p class="muted">
                        Pieces are sent one by one then. If one is cut off, its lines without a key are made twice.
                      </p>
                    )}
                  </>
                )}
                <div class="row">
                  <button type="button" class="button primary" disabled={matches && otherTenant} onClick={begin}>
                    {matches ? 'Go on' : checkOnly ? 'Check the file' : 'Import the file'}
                  </button>
                  <button type="button" class="button" onClick={() => setPicked(undefined)}>
                    Leave it
                  </button>
                </div>
              </>
            )}
          </div>
        )}
      </Panel>
      {!picked && (
        <Empty
          title="What a line is"
          commands={[
            `{"key": "order-7", "task": "send-email", "schedule": {"at": "${inAnHour()}"}, "payload": {"to": "a@example.com"}}`,
            'carillon import jobs.ndjson',
          ]}
        >
          <p>
            A line is a job as POST /v1/jobs takes it, with an optional key. The program does the same from a shell, reads
            compressed files, and goes on after any interruption.
          </p>
        </Empty>
      )}
    </>
  );
}

/** A time for an example: one that is past would run at once. */
function inAnHour(): string {
  return new Date(Math.ceil(serverNow() / 3_600_000 + 1) * 3_600_000).toISOString().replace('.000', '');
}

const states: Record<Importing['phase'], [state: string, words: string]> = {
  running: ['running', 'under way'],
  waiting: ['waiting', 'waits for the node'],
  held: ['paused', 'held'],
  stopped: ['failed', 'stopped'],
  done: ['done', 'done'],
};

function UnderWay({ at }: { at: Importing }) {
  const { progress: p, phase } = at;
  const [state, words] = states[phase];
  const elapsed = Math.max(1, localNow.value - at.began);
  const rate = ((p.at - at.beganAt) / elapsed) * 1000;
  const left = rate > 0 ? ((p.file.size - p.at) / rate) * 1000 : undefined;
  const checked = p.lines - p.failed;
  const goesOnIn = at.goesOnAt === undefined ? 0 : Math.max(0, at.goesOnAt - localNow.value);
  return (
    <>
      <Panel
        title={`${p.checkOnly ? 'Check' : 'Import'} of ${p.file.name}`}
        actions={
          <>
            {(phase === 'running' || phase === 'waiting') && (
              <button type="button" class="button" onClick={holdImport}>
                <Icon name="pause" /> Hold
              </button>
            )}
            {(phase === 'held' || phase === 'stopped') && (
              <button type="button" class="button primary" onClick={resumeImport}>
                <Icon name="play" /> Go on
              </button>
            )}
            {phase === 'done' ? (
              <button type="button" class="button primary" onClick={stopImport}>
                Import another file
              </button>
            ) : (
              <button type="button" class="button danger" onClick={() => void stop()}>
                End it here
              </button>
            )}
          </>
        }
      >
        <p class="row">
          <StateBadge state={state} words={words} />
          {phase === 'running' && left !== undefined && p.at > at.beganAt && <span class="muted">about {coarse(left)} left</span>}
          {phase === 'waiting' && goesOnIn > 0 && <span class="muted">tries again in {coarse(goesOnIn)}</span>}
        </p>
        <Tenths at={at} />
        <Progress
          label="Lines"
          of={expected(p)}
          about={p.at < p.file.size}
          parts={
            p.checkOnly
              ? [
                  { name: 'would be taken', n: checked, tone: 'good' },
                  { name: 'failed', n: p.failed, tone: 'bad' },
                ]
              : [
                  { name: 'created', n: p.created, tone: 'good' },
                  { name: 'known before', n: p.existing, tone: 'still' },
                  { name: 'failed', n: p.failed, tone: 'bad' },
                ]
          }
        />
        <Refusal problem={at.problem} what={phase === 'waiting' ? 'It waits' : 'It has stopped'} />
        {at.unkept && phase !== 'done' && (
          <p class="toned tone-warn">This browser keeps nothing: after a reload it begins anew. {p.addKeys && 'Keys make that safe.'}</p>
        )}
        <Facts
          facts={[
            ['For the tenant', p.tenant],
            ['Lines answered', number(p.lines)],
            ['Read', `${bytes(p.at)} of ${bytes(p.file.size)}`],
            ['Lines without a key', p.addKeys ? 'were given one' : 'are sent as they are'],
          ]}
        />
        {phase === 'done' && !p.checkOnly && p.created > 0 && (
          <p>
            <a href={href('/runs', { last: '15m' })}>Runs that are due about now</a> · <a href={href('/jobs')}>Jobs</a>
          </p>
        )}
      </Panel>
      {at.failures.length > 0 && <Failures at={at} />}
    </>
  );

  async function stop(): Promise<void> {
    const yes = await confirm({
      title: 'End the import here?',
      children: <p>{p.checkOnly ? 'Nothing was created.' : 'What was created stays.'} Where it was is forgotten.</p>,
      action: 'End it',
      danger: true,
    });
    if (yes) {
      stopImport();
    }
  }
}

/** How many lines there are, blank ones left out, as far as can be told by what was read. */
function expected(p: Kept): number | undefined {
  const told = p.checkOnly ? p.lines : p.created + p.existing + p.failed;
  if (p.at === 0) {
    return undefined;
  }
  const whole = (told / p.at) * p.file.size;
  return p.at >= p.file.size ? told : Number(whole.toPrecision(2));
}

/** Reads out each tenth of the file, and not each piece. */
function Tenths({ at }: { at: Importing }) {
  const { progress: p } = at;
  const tenth = p.file.size === 0 ? 10 : Math.floor((p.at / p.file.size) * 10);
  return (
    <p class="hidden" role="status">
      {tenth * 10} per cent of the file is done
    </p>
  );
}

const shownAtMost = 200;
/** Said of a line that failed before the page was loaded anew: what was wrong with it is kept nowhere. */
const forgotten = 'it failed before the page was loaded anew';

function Failures({ at }: { at: Importing }) {
  const { failures, progress } = at;
  const columns: Column<Failure>[] = [
    { head: 'Line', kind: 'main', cell: (f) => number(f.number) },
    { head: 'Status', kind: 'number', cell: (f) => (f.status === 0 ? <span class="muted">–</span> : f.status) },
    { head: 'Why', cell: (f) => (f.why === '' ? <span class="muted">{forgotten}</span> : <bdi>{f.why}</bdi>) },
  ];
  const rows = useMemo(
    () => failures.slice(0, shownAtMost).sort((a, b) => a.number - b.number),
    [failures.length > shownAtMost ? shownAtMost : failures.length],
  );
  const name = progress.file.name.replace(/\.[^.]*$/, '');
  const saveLines = (): void => {
    const file = importedFile();
    if (file) {
      // Pieces of the file itself: none of it is read into the page.
      const parts = failures.flatMap((f) => [file.slice(f.start, f.end), '\n']);
      saveFile(`${name}.failed.ndjson`, new Blob(parts, { type: 'application/x-ndjson' }));
    }
  };
  const saveReasons = (): void => {
    const lines = failures.map((f) => JSON.stringify({ line: f.number, status: f.status, error: f.why || forgotten }) + '\n');
    saveFile(`${name}.failed.ndjson.errors`, new Blob(lines, { type: 'application/x-ndjson' }));
  };
  return (
    <Panel
      title={`${count(failures.length, 'line')} failed`}
      about="The others are not stopped by them. Mend the file of failed lines, and import that."
      actions={
        <>
          <button type="button" class="button" onClick={saveLines}>
            Save the failed lines
          </button>
          <button type="button" class="button" onClick={saveReasons}>
            Save why
          </button>
        </>
      }
    >
      <Table caption="Lines that failed" columns={columns} rows={rows} rowKey={(f) => String(f.number)} />
      {failures.length > shownAtMost && <p class="muted">The first {number(shownAtMost)} are shown; the files have all.</p>}
    </Panel>
  );
}
