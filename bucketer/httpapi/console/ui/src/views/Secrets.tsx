// Secrets: names and versions, never values. A value is put here, and can never be read back.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { useAll } from '../api/all';
import { answer, api } from '../api/client';
import { may } from '../api/session';
import type { Secret } from '../api/types';
import { confirm } from '../parts/Confirm';
import { CopyCurl } from '../parts/CopyCurl';
import { Empty } from '../parts/Empty';
import { AreaField, TextField } from '../parts/Field';
import { FormDialog } from '../parts/FormDialog';
import { Icon } from '../parts/Icon';
import { SearchedList } from '../parts/SearchedList';
import type { Column } from '../parts/Table';
import { TimeLabel } from '../parts/TimeLabel';
import { View } from '../parts/View';
import type { ViewParams } from '../routes';
import { number } from '../words';

export function Secrets(_props: ViewParams) {
  const [putting, setPutting] = useState<string | undefined>(undefined);
  const action = useAction({ loud: true });
  const admin = may('admin');
  const live = useAll<Secret>('all secrets', (query, signal) => answer(api.GET('/v1/secrets', { params: { query }, signal })));
  const remove = async (secret: Secret): Promise<void> => {
    const yes = await confirm({
      title: `Delete the secret ${secret.name}?`,
      children: <p>Within 10 s no call is made with it, and calls that need it fail. Its value cannot be had back.</p>,
      action: 'Delete the secret',
      danger: true,
      typed: secret.name,
    });
    if (yes) {
      await action.run(
        () => answer(api.DELETE('/v1/secrets/{name}', { params: { path: { name: secret.name } } })),
        `The secret ${secret.name} is deleted.`,
      );
    }
  };
  const columns: Column<Secret>[] = [
    { head: 'Secret', kind: 'main', cell: (s) => s.name },
    {
      head: 'Version',
      kind: 'number',
      cell: (s) => (s.fault ? <span class="toned tone-bad">not understood</span> : number(s.versions?.[0]?.version ?? 0)),
    },
    { head: 'Put', cell: (s) => <TimeLabel at={s.versions?.[0]?.created_at} relative /> },
    { head: 'By', minor: true, cell: (s) => <bdi>{s.versions?.[0]?.created_by ?? s.created_by ?? ''}</bdi> },
    { head: 'Last used', cell: (s) => <TimeLabel at={s.last_used_at} relative none="never" /> },
    {
      head: 'The one before serves until',
      minor: true,
      cell: (s) => <TimeLabel at={s.versions?.[1]?.valid_until} relative />,
    },
    { head: 'Sealed with', minor: true, cell: (s) => s.versions?.[0]?.sealed_with ?? '' },
    {
      head: 'What can be done',
      kind: 'actions',
      quietHead: true,
      cell: (s) =>
        admin ? (
          <span class="row">
            <button type="button" class="button small" onClick={() => setPutting(s.name)}>
              New value
            </button>
            <button type="button" class="button small" disabled={action.busy} onClick={() => void remove(s)}>
              Delete
            </button>
          </span>
        ) : null,
    },
  ];
  return (
    <View
      title="Secrets"
      about="Tokens, passwords and keys that calls are made with. Work names them; nobody can read a value back, here or anywhere."
      actions={
        <>
          {admin && (
            <button type="button" class="button primary" onClick={() => setPutting('')}>
              <Icon name="plus" /> New secret
            </button>
          )}
          <CopyCurl path="/v1/secrets" />
        </>
      }
    >
      <SearchedList
        live={live}
        title="Names"
        what="secrets"
        one="secret"
        find={{ label: 'Name', placeholder: 'orders-token', textOf: (s) => s.name }}
        caption="Secrets, by name"
        columns={columns}
        keyOf={(s) => s.name}
        empty={
          <Empty title="There are no secrets yet" commands={['carillon secret put orders-token < token.txt']}>
            <p>A task names one by http.auth, such as {'{"bearer": {"secret": "orders-token"}}'}.</p>
          </Empty>
        }
      />
      {putting !== undefined && <PutDialog name={putting} onClose={() => setPutting(undefined)} />}
    </View>
  );
}

function PutDialog({ name: fixed, onClose }: { name: string; onClose: () => void }) {
  const [name, setName] = useState(fixed);
  const [value, setValue] = useState('');
  const [lines, setLines] = useState(false);
  const action = useAction();
  const put = async (): Promise<void> => {
    const done = await action.run(
      () => answer(api.PUT('/v1/secrets/{name}', { params: { path: { name: name.trim() } }, body: { value } })),
      'The secret is put: within 10 s calls are made with it.',
    );
    if (done) {
      setValue('');
      onClose();
    }
  };
  const help = 'Text of 4 to 65,536 bytes. It goes to the node and is kept there encrypted; this page forgets it.';
  return (
    <FormDialog
      title={fixed === '' ? 'New secret' : `New value of ${fixed}`}
      action={action}
      what="The secret was not put"
      send="Put it"
      ready={name.trim() !== '' && value !== ''}
      onSend={put}
      onClose={onClose}
    >
      {fixed === '' && (
        <TextField
          label="Name"
          at="path.name"
          problem={action.problem}
          value={name}
          onValue={setName}
          placeholder="orders-token"
          help="a–z, 0–9, “.”, “_” and “-”. One that is there gets a new version."
        />
      )}
      {lines ? (
        <AreaField label="Value" at="body.value" problem={action.problem} value={value} onValue={setValue} rows={8} help={help} />
      ) : (
        <TextField
          label="Value"
          type="password"
          autocomplete="new-password"
          at="body.value"
          problem={action.problem}
          value={value}
          onValue={setValue}
          help={help}
        />
      )}
      <label class="check">
        <input type="checkbox" checked={lines} onChange={(e) => setLines(e.currentTarget.checked)} />
        It has several lines, such as a certificate. It is seen while it is typed.
      </label>
    </FormDialog>
  );
}
