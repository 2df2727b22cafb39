// One thing done to many: to the rows that are selected, one by one from here; or to all that match, as
// an operation of the server, after a dry run has counted them. What the dry run counted is what is
// done: the window of the filter is fixed when the person begins.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { answer, api, newKey } from '../api/client';
import { refreshAll } from '../api/live';
import { asProblem, isAbort, type Problem } from '../api/problem';
import { may, tenant } from '../api/session';
import type { components } from '../api/schema';
import { filterWords } from '../operations';
import { go } from '../router';
import { count, number } from '../words';
import { ConfirmForm } from './Confirm';
import { Dialog } from './Dialog';
import { Refusal } from './Refusal';
import type { Selection } from './Table';
import { TimeLabel } from './TimeLabel';
import { say } from './Toasts';

export type OperationRequest = components['schemas']['OperationRequest'];
export type OperationFilter = OperationRequest['filter'];

export interface BulkAction {
  action: string;
  /** On the button: "Cancel". */
  name: string;
  /** What was done: "cancelled". */
  done: string;
  danger?: boolean;
  /** A sentence on what it does. */
  about: ComponentChildren;
  each: (key: string) => Promise<unknown>;
  /** Goes to where one sees what became of them, when each was done. */
  then?: () => void;
  /** What all that match are, made when it is asked for; or why that cannot be said to the server. */
  all: () => OperationFilter | string;
}

export interface BulkProps {
  selection: Selection;
  /** What the list is asked for. Whoever asks for something else has not chosen all that match that. */
  question: string;
  one: string;
  many?: string;
  actions: readonly BulkAction[];
}

/** What a person has chosen to do to which. */
export interface Chosen {
  action: BulkAction;
  keys: readonly string[];
  /** Undefined: the selected rows. */
  filter: OperationFilter | undefined;
}

export function Bulk({ selection, question, one, many = `${one}s`, actions }: BulkProps) {
  const [chosen, setChosen] = useState<Chosen | undefined>(undefined);
  const [allOf, setAllOf] = useState<string | undefined>(undefined);
  const all = allOf === question;
  const setAll = (on: boolean): void => setAllOf(on ? question : undefined);
  useEffect(() => setAllOf(undefined), [question]); // also if the same is asked for again later
  if (!may('operator')) {
    return null;
  }
  const { size } = selection.keys;
  const refusals = actions.map((a) => a.all());
  const why = refusals.every((r) => typeof r === 'string') ? refusals[0] : undefined;
  return (
    <div class={`bulk ${size > 0 || all ? 'on' : ''}`} role="group" aria-label={`With many ${many}`}>
      <span class="bulk-what">
        {all ? `All ${many} that match` : size > 0 ? `${count(size, one, many)} selected` : `Select ${many}, or take`}
      </span>
      {!all && (
        <button type="button" class="button small" onClick={() => setAll(true)}>
          all that match
        </button>
      )}
      {(size > 0 || all) &&
        actions.map((action) => {
          const filter = all ? action.all() : undefined;
          const impossible = typeof filter === 'string';
          return (
            <button
              key={action.action}
              type="button"
              class={`button small ${action.danger ? 'danger' : 'primary'}`}
              disabled={impossible}
              title={impossible ? filter : undefined}
              onClick={() =>
                setChosen({ action, keys: [...selection.keys], filter: typeof filter === 'string' ? undefined : filter })
              }
            >
              {action.name}
            </button>
          );
        })}
      {(size > 0 || all) && (
        <button
          type="button"
          class="button quiet small"
          onClick={() => {
            setAll(false);
            selection.clear();
          }}
        >
          Leave it
        </button>
      )}
      {all && typeof why === 'string' && <span class="muted small-text">{why}</span>}
      {chosen &&
        (chosen.filter ? (
          <AllDialog chosen={chosen} one={one} many={many} filter={chosen.filter} onClose={() => setChosen(undefined)} />
        ) : (
          <EachDialog
            chosen={chosen}
            one={one}
            many={many}
            onClose={(done) => {
              setChosen(undefined);
              if (done) {
                selection.clear();
              }
            }}
          />
        ))}
    </div>
  );
}

/** How many requests are under way at once. */
const atOnce = 6;
/** From so many on, their number is typed to confirm. */
const typedFrom = 20;

interface Progress {
  done: number;
  failed: { key: string; problem: Problem }[];
  over: boolean;
}

export function EachDialog(props: { chosen: Chosen; one: string; many: string; onClose: (done: boolean) => void }) {
  const { chosen, one, many, onClose } = props;
  const { action, keys } = chosen;
  const [progress, setProgress] = useState<Progress | undefined>(undefined);
  const stopped = useRef(false);
  useEffect(() => () => void (stopped.current = true), []);

  const begin = async (): Promise<void> => {
    const at: Progress = { done: 0, failed: [], over: false };
    setProgress({ ...at });
    const rest = [...keys];
    const work = async (): Promise<void> => {
      for (let key = rest.shift(); key !== undefined && !stopped.current; key = rest.shift()) {
        try {
          await action.each(key);
          at.done++;
        } catch (thrown) {
          at.failed.push({ key, problem: asProblem(thrown) });
        }
        setProgress({ ...at });
      }
    };
    await Promise.all(Array.from({ length: Math.min(atOnce, keys.length) }, work));
    at.over = true;
    refreshAll();
    if (at.failed.length === 0 && !stopped.current) {
      say(`${count(at.done, one, many)} ${at.done === 1 ? 'was' : 'were'} ${action.done}.`);
      onClose(true);
      action.then?.();
    } else {
      setProgress({ ...at });
    }
  };

  return (
    <Dialog title={`${action.name} ${count(keys.length, one, many)}`} onClose={() => onClose(progress !== undefined)}>
      <p>{action.about}</p>
      {progress === undefined ? (
        <ConfirmForm
          typed={keys.length >= typedFrom ? number(keys.length) : undefined}
          action={`${action.name} ${count(keys.length, one, many)}`}
          danger={action.danger}
          onYes={() => void begin()}
          onNo={() => onClose(false)}
        />
      ) : (
        <>
          <progress max={keys.length} value={progress.done + progress.failed.length} aria-label="Progress" />
          <p role="status">
            {number(progress.done)} of {number(keys.length)} {action.done}
            {progress.failed.length > 0 && `, ${number(progress.failed.length)} could not be`}
          </p>
          {progress.failed.length > 0 && (
            <ul class="faults">
              {progress.failed.slice(0, 20).map(({ key, problem }) => (
                <li key={key}>
                  <code>{key}</code> {problem.sentence}
                </li>
              ))}
            </ul>
          )}
          <div class="dialog-actions">
            <button type="button" class="button" onClick={() => onClose(true)}>
              {progress.over ? 'Close' : 'Stop here'}
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}

/** How often a dry run that counts on is asked, in ms. */
const countEvery = 1000;

export function AllDialog(props: { chosen: Chosen; filter: OperationFilter; one: string; many: string; onClose: () => void }) {
  const { chosen, filter, one, many, onClose } = props;
  const { action } = chosen;
  const [matched, setMatched] = useState<{ n: number; over: boolean } | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const [key] = useState(newKey);
  const words = filterWords({ filter });

  useEffect(() => {
    const gone = new AbortController();
    void (async () => {
      try {
        const body = { action: action.action, filter, dry_run: true } as OperationRequest;
        const begun = await answer(api.POST('/v1/operations', { body, signal: gone.signal }));
        let [n, over] = [begun.matched, begun.all];
        setMatched({ n, over });
        while (!over && !gone.signal.aborted) {
          await new Promise((resolve) => setTimeout(resolve, countEvery));
          const op = await answer(
            api.GET('/v1/operations/{id}', { params: { path: { id: begun.id } }, signal: gone.signal }),
          );
          [n, over] = [op.matched, op.state !== 'running'];
          setMatched({ n, over });
        }
      } catch (thrown) {
        if (!isAbort(thrown)) {
          setProblem(asProblem(thrown));
        }
      }
    })();
    return () => gone.abort();
  }, []);

  const begin = async (): Promise<void> => {
    setBusy(true);
    setProblem(undefined);
    try {
      const begun = await answer(
        api.POST('/v1/operations', {
          params: { header: { 'Idempotency-Key': key } },
          body: { action: action.action, filter } as OperationRequest,
        }),
      );
      onClose();
      go(`/operations/${begun.id}`);
    } catch (thrown) {
      setProblem(asProblem(thrown));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog title={`${action.name} all ${many} that match`} onClose={onClose}>
      <p>{action.about}</p>
      <p>
        All {many} of the tenant <strong>{tenant.value}</strong>
        {filter.from && filter.to && (
          <>
            , due from <TimeLabel at={filter.from} /> to <TimeLabel at={filter.to} />
          </>
        )}
        {words !== '' && (
          <>
            , <bdi>{words}</bdi>
          </>
        )}
        .
      </p>
      <p class="bulk-count" role="status" aria-live="polite">
        {matched === undefined && !problem && 'A dry run counts what matches.'}
        {matched && !matched.over && `${number(matched.n)} match so far. The dry run goes on counting.`}
        {matched?.over && (matched.n === 0 ? `No ${one} matches.` : `${number(matched.n)} match.`)}
      </p>
      <Refusal problem={problem} what="Nothing was begun" />
      {matched?.over && matched.n > 0 ? (
        <ConfirmForm
          typed={number(matched.n)}
          action={`${action.name} ${count(matched.n, one, many)}`}
          danger={action.danger}
          busy={busy}
          onYes={() => void begin()}
          onNo={onClose}
        />
      ) : (
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Leave it
          </button>
        </div>
      )}
    </Dialog>
  );
}
