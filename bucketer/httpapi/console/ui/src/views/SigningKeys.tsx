// Signing keys: by which the HTTP calls of the tenant are signed. A secret is shown once, when it is made.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import { slow, useLive } from '../api/live';
import { may } from '../api/session';
import type { NewSigningKey, SigningKey } from '../api/types';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { SelectField, TextField } from '../parts/Field';
import { FormDialog } from '../parts/FormDialog';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import { ShownOnce } from '../parts/ShownOnce';
import { Table, type Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import type { ViewParams } from '../routes';
import { count } from '../words';

type Open = { kind: 'make' } | { kind: 'rotate'; name: string };

export function SigningKeys(_props: ViewParams) {
  const [open, setOpen] = useState<Open | undefined>(undefined);
  const [made, setMade] = useState<NewSigningKey | undefined>(undefined);
  const action = useAction({ loud: true });
  const live = useLive('signing keys', (signal) => answer(api.GET('/v1/signing-keys', { signal })), { every: slow });
  const revoke = async (key: SigningKey): Promise<void> => {
    const yes = await confirm({
      title: `Revoke the signing key ${key.name}?`,
      children: (
        <p>
          Within 10 s no call is signed with it: whoever checks signatures refuses the calls. That cannot be taken back.
        </p>
      ),
      action: 'Revoke the key',
      danger: true,
      typed: key.name,
    });
    if (yes) {
      await action.run(
        () => answer(api.DELETE('/v1/signing-keys/{name}', { params: { path: { name: key.name } } })),
        `The signing key ${key.name} is revoked.`,
      );
    }
  };
  const columns: Column<SigningKey>[] = [
    {
      head: 'Key',
      kind: 'main',
      cell: (k) => (
        <>
          {k.name}
          {k.name === 'default' && <span class="muted"> signs calls that name no key</span>}
        </>
      ),
    },
    { head: 'Secret of', cell: (k) => <TimeLabel at={k.secrets?.[0]?.created_at} relative /> },
    {
      head: 'Older secrets',
      cell: (k) => {
        const older = (k.secrets ?? []).slice(1);
        return older.length === 0 ? (
          <span class="muted">none</span>
        ) : (
          <>
            {count(older.length, 'secret')}, until <TimeLabel at={older[0]?.valid_until} relative />
          </>
        );
      },
    },
    { head: 'Made', minor: true, cell: (k) => <TimeLabel at={k.created_at} relative /> },
    { head: 'By', minor: true, cell: (k) => <bdi>{k.created_by ?? ''}</bdi> },
    { head: 'Sealed with', minor: true, cell: (k) => k.secrets?.[0]?.sealed_with ?? '' },
    {
      head: 'What can be done',
      kind: 'actions',
      quietHead: true,
      cell: (k) =>
        may('admin') ? (
          <span class="row">
            <button type="button" class="button small" onClick={() => setOpen({ kind: 'rotate', name: k.name })}>
              Rotate
            </button>
            <button type="button" class="button small" disabled={action.busy} onClick={() => void revoke(k)}>
              Revoke
            </button>
          </span>
        ) : null,
    },
  ];
  return (
    <View
      title="Signing keys"
      about="HTTP calls carry a signature by these keys (Standard Webhooks), so that whoever is called knows that Carillon calls."
      actions={
        <>
          {may('admin') && (
            <button type="button" class="button primary" onClick={() => setOpen({ kind: 'make' })}>
              <Icon name="plus" /> New signing key
            </button>
          )}
          <CopyCurl path="/v1/signing-keys" />
        </>
      }
    >
      <Panel title="Keys of the tenant" live={live} every={slow}>
        <Answered live={live} what="signing keys" needs="It needs the role admin.">
          {(list) => (
            <Table
              caption="Signing keys, by name"
              columns={columns}
              rows={list.items ?? []}
              rowKey={(k) => k.name}
              empty={
                <Empty title="Calls are not signed yet" commands={['carillon signing-key create']}>
                  <p>The key called default signs every call that names none.</p>
                </Empty>
              }
            />
          )}
        </Answered>
      </Panel>
      {open?.kind === 'make' && <MakeDialog onClose={() => setOpen(undefined)} onMade={setMadeAnd} />}
      {open?.kind === 'rotate' && <RotateDialog name={open.name} onClose={() => setOpen(undefined)} onMade={setMadeAnd} />}
      {made && (
        <ShownOnce
          title={`The secret of ${made.name}`}
          secret={made.secret}
          about="Whoever is called checks the header webhook-signature with it. If it is lost, rotate the key."
          onClose={() => setMade(undefined)}
        />
      )}
    </View>
  );

  function setMadeAnd(key: NewSigningKey): void {
    setOpen(undefined);
    setMade(key);
  }
}

function MakeDialog({ onClose, onMade }: { onClose: () => void; onMade: (key: NewSigningKey) => void }) {
  const [name, setName] = useState('default');
  const action = useAction();
  const make = async (): Promise<void> => {
    const key = await action.run(() => answer(api.POST('/v1/signing-keys', { body: { name: name.trim() } })));
    if (key) {
      onMade(key);
    }
  };
  return (
    <FormDialog
      title="New signing key"
      action={action}
      what="The key was not made"
      send="Make it"
      ready={name.trim() !== ''}
      onSend={make}
      onClose={onClose}
    >
      <TextField
        label="Name"
        at="body.name"
        problem={action.problem}
        value={name}
        onValue={setName}
        help="The one called default signs, within 10 s, every call that names none."
      />
    </FormDialog>
  );
}

const overlaps = [
  { value: '24h', text: '24 hours' },
  { value: '1h', text: '1 hour' },
  { value: '168h', text: '7 days' },
  { value: '720h', text: '30 days' },
  { value: '0s', text: 'no longer: the old secret signs no more' },
];

function RotateDialog(props: { name: string; onClose: () => void; onMade: (key: NewSigningKey) => void }) {
  const { name, onClose, onMade } = props;
  const [overlap, setOverlap] = useState('24h');
  const action = useAction();
  const rotate = async (): Promise<void> => {
    const key = await action.run(() =>
      answer(api.POST('/v1/signing-keys/{name}/rotate', { params: { path: { name } }, body: { overlap } })),
    );
    if (key) {
      onMade(key);
    }
  };
  return (
    <FormDialog
      title={`Rotate ${name}`}
      action={action}
      what="The key was not rotated"
      send="Rotate it"
      onSend={rotate}
      onClose={onClose}
    >
      <p>The key gets a new secret. Calls carry a signature by each secret that is good, so that whoever is called can change over in between.</p>
      <SelectField
        label="The secret of now signs for another"
        at="body.overlap"
        problem={action.problem}
        value={overlap}
        onValue={setOverlap}
        options={overlaps}
      />
    </FormDialog>
  );
}
