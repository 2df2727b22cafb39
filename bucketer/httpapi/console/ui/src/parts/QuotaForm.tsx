// States the weight, the quotas, the retention and the encryption of a tenant.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import type { Tenant } from '../api/types';
import { quotaKinds, tenantBody, textsOf } from '../quotas';
import { SelectField, TextField } from './Field';
import { Refusal } from './Refusal';

export function QuotaForm({ tenant }: { tenant: Tenant }) {
  const [texts, setTexts] = useState(() => textsOf(tenant));
  const action = useAction();
  const { body, faults, ok } = tenantBody(tenant, texts);
  const put = async (): Promise<void> => {
    await action.run(
      () => answer(api.PUT('/v1/tenants/{name}', { params: { path: { name: tenant.name } }, body })),
      `What holds for ${tenant.name} is stated.`,
    );
  };
  return (
    <form
      class="stack"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        if (ok) {
          void put();
        }
      }}
    >
      <div class="fields">
        <TextField
          label="Weight"
          at="body.weight"
          problem={action.problem}
          faults={faults.weight ? [faults.weight] : []}
          value={texts.weight}
          onValue={(weight) => setTexts({ ...texts, weight })}
          help="Its share where tenants compete. Others have 1."
        />
        {quotaKinds.map(({ name, label, about }) => {
          const fault = faults.quotas[name];
          return (
            <TextField
              key={name}
              label={label}
              at={`body.quotas.${name}`}
              problem={action.problem}
              faults={fault ? [fault] : []}
              value={texts.quotas[name] ?? ''}
              placeholder="no bound"
              onValue={(v) => setTexts({ ...texts, quotas: { ...texts.quotas, [name]: v } })}
              help={about}
            />
          );
        })}
        <TextField
          label="Retention, in days"
          at="body.retention"
          problem={action.problem}
          faults={faults.retention ? [faults.retention] : []}
          value={texts.retention}
          placeholder="the cluster’s"
          onValue={(retention) => setTexts({ ...texts, retention })}
          help="For how long the history of its runs is kept, at most the cluster’s own. It holds for runs that are asked for or planned from then on."
        />
        <SelectField
          label="Encryption of payloads"
          at="body.encrypt_payloads"
          problem={action.problem}
          value={texts.encrypted ? 'on' : 'off'}
          onValue={(v) => setTexts({ ...texts, encrypted: v === 'on' })}
          options={[
            { value: 'off', text: 'off' },
            { value: 'on', text: 'on, from now on' },
          ]}
          help="Payloads, outputs and errors are stored encrypted; names, labels, tasks and URLs are not. What was stored before stays as it is. The operator must have configured a key."
        />
      </div>
      <Refusal problem={action.problem} what="Nothing was changed" form focus />
      <div class="row">
        <button type="submit" class="button primary" disabled={action.busy || !ok}>
          State them
        </button>
      </div>
    </form>
  );
}
