// Has another region serve a home: what it costs, then the name of the home typed, then how far it is.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { ask } from '../api/client';
import { ConfirmForm } from '../parts/Confirm';
import { Dialog } from '../parts/Dialog';
import { Field, SelectField, TextField } from '../parts/Field';
import { Note } from '../parts/Note';
import { Progress } from '../parts/Progress';
import { Refusal } from '../parts/Refusal';
import { Table, type Column } from '../parts/Table';
import { changeWords, planRows, standOfChange, targetsOf, type HomeChangeAnswer, type HomeStand, type PlanRow, type RegionsStand } from '../homechange';
import { pathTo } from '../place';

/** A plan listens 6 s for signs of life; the API answers within 15 s. */
const patience = 30_000;

const columns: Column<PlanRow>[] = [
  { head: 'What', kind: 'main', cell: (r) => r.name },
  { head: 'Number', kind: 'number', cell: (r) => <span class={r.bad ? 'toned tone-bad' : undefined}>{r.value}</span> },
  { head: 'That is', cell: (r) => <span class="muted">{r.about}</span> },
];

export interface ChangeHomeProps {
  home: HomeStand;
  stand: RegionsStand;
  forced: boolean;
  onClose: () => void;
}

export function ChangeHome({ home, stand, forced, onClose }: ChangeHomeProps) {
  // How far a region is behind is known there alone, so a home fails over to the region that answers.
  const targets = targetsOf(home, stand).filter((name) => !forced || name === stand.region);
  const [to, setTo] = useState(targets[0] ?? '');
  const [reason, setReason] = useState('');
  const [accept, setAccept] = useState(false);
  const [plan, setPlan] = useState<HomeChangeAnswer | undefined>(undefined);
  const planning = useAction();
  const doing = useAction();
  const path = `${pathTo('/v1/admin/regions/:home', { home: home.name })}/${forced ? 'failover' : 'move'}`;
  const verb = forced ? 'Fail over' : 'Move';
  const accepted = forced ? { accept_lag: accept, accept_no_executors: accept } : { accept_no_executors: accept };
  const makePlan = async (): Promise<void> => {
    setPlan(undefined);
    doing.clear();
    const answered = await planning.run(() =>
      ask<HomeChangeAnswer>(path, { method: 'POST', body: { to, plan: true, ...accepted }, patience }),
    );
    setPlan(answered);
  };
  const change = async (): Promise<void> => {
    const answered = await doing.run(
      () => ask<HomeChangeAnswer>(path, { method: 'POST', body: { to, reason, confirm: home.name, ...accepted }, patience }),
      forced ? `Home ${home.name} failed over to region ${to}` : `Home ${home.name} is being moved to region ${to}`,
    );
    if (answered) {
      onClose();
    }
  };
  return (
    <Dialog title={`${verb} home ${home.name}`} onClose={onClose} wide>
      <form
        class="stack"
        autocomplete="off"
        onSubmit={(e) => {
          e.preventDefault();
          if (to !== '') {
            void makePlan();
          }
        }}
      >
        <p>
          Region {home.region} serves it.{' '}
          {forced
            ? 'It can be failed over when that region is lost: while it gives signs of life it is refused.'
            : 'It can be moved while both regions are well.'}
        </p>
        <SelectField
          label="To region"
          at="body.to"
          problem={doing.problem ?? planning.problem}
          value={to}
          onValue={(value) => {
            setTo(value);
            setPlan(undefined);
          }}
          options={targets.map((name) => ({ value: name, text: name }))}
        />
        <Refusal problem={planning.problem} what="There is no plan" focus />
        <div class="dialog-actions">
          <button type="submit" class="button" disabled={planning.busy || doing.busy || to === ''}>
            {planning.busy ? 'Listening for signs of life, 6 s' : 'Show what it costs'}
          </button>
        </div>
      </form>
      {plan && (
        <div class="stack">
          <Table caption={`What it costs to ${verb.toLowerCase()} home ${home.name}`} columns={columns} rows={planRows(plan, forced)} rowKey={(r) => r.name} />
          {plan.plan.refused.map((why) => (
            <Note key={why} tone="bad">
              It would be refused: {why}.
            </Note>
          ))}
          {(plan.plan.refused.length > 0 || accept) && (
            <Field label="Do it all the same">
              {(input) => (
                <input
                  {...input}
                  type="checkbox"
                  checked={accept}
                  onChange={(e) => {
                    setAccept(e.currentTarget.checked);
                    setPlan(undefined);
                  }}
                />
              )}
            </Field>
          )}
          <TextField label="Why" at="body.reason" problem={doing.problem} value={reason} onValue={setReason} help="It is kept, and told to whoever asks." />
          <Refusal problem={doing.problem} what={forced ? 'The home was not failed over' : 'The home is not moved'} focus />
          <ConfirmForm
            action={forced ? `Fail it over to ${to}` : `Move it to ${to}`}
            danger
            typed={home.name}
            busy={doing.busy || reason.trim() === '' || plan.plan.refused.length > 0}
            onYes={() => void change()}
            onNo={onClose}
          />
        </div>
      )}
    </Dialog>
  );
}

/** How far the change of a home is, or how it ended lately. */
export function ChangeProgress({ home, asOf }: { home: HomeStand; asOf: number }) {
  const { change } = home;
  const stand = standOfChange(change, asOf);
  if (!change || stand === 'old') {
    return null;
  }
  const well = stand === 'under way' || change.phase === 'done';
  return (
    <Note
      tone={well ? 'run' : 'warn'}
      more={
        stand === 'under way' &&
        change.of !== undefined && (
          <Progress label="Compared" of={change.of} parts={[{ name: 'minutes of shards compared', n: change.partitions ?? 0, tone: 'run' }]} />
        )
      }
    >
      {changeWords(home.name, change, asOf)}
    </Note>
  );
}
