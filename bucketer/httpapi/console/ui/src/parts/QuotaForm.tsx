// States the weight and the quotas of a tenant.

import { useState } from 'preact/hooks';
import { useAction } from '../api/action';
import { answer, api } from '../api/client';
import type { Tenant } from '../api/types';
import { quotaKinds, readQuotas, type QuotasLike } from '../quotas';
import { TextField } from './Field';
import { Refusal } from './Refusal';

export function QuotaForm({ tenant }: { tenant: Tenant }) {
  const [weight, setWeight] = useState(String(tenant.weight));
  const [texts, setTexts] = useState<Partial<Record<keyof QuotasLike, string>>>(() =>
    Object.fromEntries(quotaKinds.map(({ name }) => [name, tenant.quotas[name] ? String(tenant.quotas[name]) : ''])),
  );
  const action = useAction();
  const { quotas, faults } = readQuotas(texts);
  const badWeight = /^\d+$/.test(weight.trim()) ? [] : ['must be a whole number from 1 on'];
  const put = async (): Promise<void> => {
    await action.run(
      () =>
        answer(
          api.PUT('/v1/tenants/{name}', {
            params: { path: { name: tenant.name } },
            body: {
              weight: Number(weight),
              quotas,
              // What the form does not state stays as it is.
              ...(tenant.durability ? { durability: tenant.durability } : {}),
              ...(tenant.retention ? { retention: tenant.retention } : {}),
              ...(tenant.audit ? { audit: tenant.audit } : {}),
              ...(tenant.encrypt_payloads ? { encrypt_payloads: true } : {}),
            },
          }),
        ),
      `Weight and quotas of ${tenant.name} are stated.`,
    );
  };
  return (
    <form
      class="stack"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        if (badWeight.length === 0 && Object.keys(faults).length === 0) {
          void put();
        }
      }}
    >
      <div class="fields">
        <TextField
          label="Weight"
          at="body.weight"
          problem={action.problem}
          faults={badWeight}
          value={weight}
          onValue={setWeight}
          help="Its share where tenants compete. Others have 1."
        />
        {quotaKinds.map(({ name, label, about }) => (
          <TextField
            key={name}
            label={label}
            at={`body.quotas.${name}`}
            problem={action.problem}
            faults={faults[name] ? [faults[name]] : []}
            value={texts[name] ?? ''}
            placeholder="no bound"
            onValue={(v) => setTexts({ ...texts, [name]: v })}
            help={about}
          />
        ))}
      </div>
      <Refusal problem={action.problem} what="Nothing was changed" form focus />
      <div class="row">
        <button type="submit" class="button primary" disabled={action.busy || badWeight.length > 0 || Object.keys(faults).length > 0}>
          State them
        </button>
      </div>
    </form>
  );
}
