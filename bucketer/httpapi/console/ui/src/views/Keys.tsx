// API keys of the tenant: who may do what. A key itself is shown once, when it is made.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { useAll } from '../api/all';
import { answer, api } from '../api/client';
import { may, who } from '../api/session';
import type { APIKey, NewAPIKey } from '../api/types';
import { now } from '../clock';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { SelectField, TextField } from '../parts/Field';
import { FormDialog } from '../parts/FormDialog';
import { Icon } from '../parts/Icon';
import { Note } from '../parts/Note';
import { SearchedList } from '../parts/SearchedList';
import { ShownOnce } from '../parts/ShownOnce';
import type { Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import { viewerZone } from '../preferences';
import type { ViewParams } from '../routes';
import { instantOf } from '../time';

const roles = [
  { value: 'viewer', text: 'viewer: sees, and changes nothing' },
  { value: 'operator', text: 'operator: jobs, tasks, runs, workflows' },
  { value: 'admin', text: 'admin: keys, secrets and the audit log as well' },
] as const;

type Role = (typeof roles)[number]['value'];

export function Keys(_props: ViewParams) {
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<NewAPIKey | undefined>(undefined);
  const action = useAction({ loud: true });
  const live = useAll<APIKey>('all API keys', (query, signal) => answer(api.GET('/v1/api-keys', { params: { query }, signal })));
  const mine = (key: APIKey): boolean => who.value?.auth === true && who.value.actor === key.name;
  const revoke = async (key: APIKey): Promise<void> => {
    const yes = await confirm({
      title: `Revoke the key ${key.name}?`,
      children: (
        <p>
          Within 10 s no node takes it, and sessions that came by it end. That cannot be taken back.
          {mine(key) && <strong> It is the key that you are logged in with.</strong>}
        </p>
      ),
      action: 'Revoke the key',
      danger: true,
      typed: key.name,
    });
    if (yes) {
      await action.run(
        () => answer(api.DELETE('/v1/api-keys/{name}', { params: { path: { name: key.name } } })),
        `The key ${key.name} is revoked.`,
      );
    }
  };
  const columns: Column<APIKey>[] = [
    {
      head: 'Key',
      kind: 'main',
      cell: (k) => (
        <>
          {k.name}
          {mine(k) && <span class="label"> yours</span>}
        </>
      ),
    },
    { head: 'Role', cell: (k) => (k.fault ? <span class="toned tone-bad">not understood: it is refused</span> : k.role) },
    { head: 'Last used', cell: (k) => <TimeLabel at={k.last_used_at} relative none="never" /> },
    {
      head: 'Expires',
      cell: (k) => (
        <span class={k.expires_at && Date.parse(k.expires_at) - now.value < 7 * 86_400_000 ? 'toned tone-warn' : undefined}>
          <TimeLabel at={k.expires_at} relative none="never" />
        </span>
      ),
    },
    { head: 'Made', minor: true, cell: (k) => <TimeLabel at={k.created_at} relative /> },
    { head: 'By', minor: true, cell: (k) => <bdi>{k.created_by ?? ''}</bdi> },
    {
      head: 'What can be done',
      kind: 'actions',
      quietHead: true,
      cell: (k) =>
        may('admin') ? (
          <button type="button" class="button small" disabled={action.busy} onClick={() => void revoke(k)}>
            Revoke
          </button>
        ) : null,
    },
  ];
  return (
    <View
      title="API keys"
      about="A key names a tenant and a role. Programs send it; people log in to this page with it."
      actions={
        <>
          {may('admin') && (
            <button type="button" class="button primary" onClick={() => setMaking(true)}>
              <Icon name="plus" /> New key
            </button>
          )}
          <CopyCurl path="/v1/api-keys" />
        </>
      }
    >
      {who.value?.auth === false && (
        <Note tone="warn">This node asks for no keys (api.auth is off): whoever reaches it may do everything.</Note>
      )}
      <SearchedList
        live={live}
        title="Keys of the tenant"
        what="API keys"
        needs="It needs the role admin."
        one="key"
        find={{ label: 'Name', placeholder: 'deploy', textOf: (k) => k.name }}
        caption="API keys, by name"
        columns={columns}
        keyOf={(k) => k.name}
        empty={<Empty title="The tenant has no keys yet" commands={['carillon key create deploy --role operator']} />}
      />
      {making && (
        <MakeDialog
          onClose={() => setMaking(false)}
          onMade={(key) => {
            setMaking(false);
            setMade(key);
          }}
        />
      )}
      {made && (
        <ShownOnce
          title={`The key ${made.name}`}
          secret={made.key}
          about="A program sends it as Authorization: Bearer <key>. If it is lost, revoke it and make another."
          onClose={() => setMade(undefined)}
        />
      )}
    </View>
  );
}

function MakeDialog({ onClose, onMade }: { onClose: () => void; onMade: (key: NewAPIKey) => void }) {
  const zone = viewerZone.value;
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('operator');
  const [until, setUntil] = useState('');
  const action = useAction();
  const make = async (): Promise<void> => {
    const expires = instantOf(until, zone);
    const key = await action.run(() =>
      answer(
        api.POST('/v1/api-keys', {
          body: { name: name.trim(), role, ...(expires ? { expires_at: expires.toISOString() } : {}) },
        }),
      ),
    );
    if (key) {
      onMade(key);
    }
  };
  return (
    <FormDialog
      title="New API key"
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
        placeholder="deploy"
        help="The audit log knows the key by it."
      />
      <SelectField label="Role" at="body.role" problem={action.problem} value={role} onValue={(v) => setRole(v as Role)} options={roles} />
      <TextField
        label={`Good until, in ${zone}`}
        optional
        type="datetime-local"
        at="body.expires_at"
        problem={action.problem}
        value={until}
        onValue={setUntil}
        help="Empty: until it is revoked."
      />
    </FormDialog>
  );
}
