// The quotas of the tenant that is shown: what it may use, and what it did.

import { answer, api } from '../api/client';
import { slow, useLive } from '../api/live';
import { may, maySeeAll, tenant } from '../api/session';
import { CopyCurl } from '../parts/CopyCurl';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import { Table, type Column } from '../parts/Table';
import { Usage } from '../parts/Usage';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { encryptionWords, quotaKinds, quotaWords, retentionWords, type QuotasLike } from '../quotas';
import { href } from '../router';
import type { ViewParams } from '../routes';
import { number } from '../words';

interface Row {
  name: string;
  value: string;
  about: string;
}

const columns: Column<Row>[] = [
  { head: 'What', kind: 'main', cell: (r) => r.name },
  { head: 'Bound', kind: 'number', cell: (r) => r.value },
  { head: 'To be known', cell: (r) => <span class="muted">{r.about}</span> },
];

export function Quotas(_props: ViewParams) {
  const name = tenant.value;
  const live = useLive(
    `tenant ${name}`,
    (signal) => answer(api.GET('/v1/tenants/{name}', { params: { path: { name } }, signal })),
    { every: slow },
  );
  return (
    <View
      title="Quotas"
      about={`What the tenant ${name} may use. Quotas that are rates are kept by each node for its share of them.`}
      actions={
        <>
          {may('admin') && maySeeAll() && (
            <a class="button primary" href={href(pathTo('/tenants/:name', { name }))}>
              Change them
            </a>
          )}
          <CopyCurl path={pathTo('/v1/tenants/:name', { name })} />
        </>
      }
    >
      <div class="columns">
        <Panel title="Bounds" live={live} every={slow}>
          <Answered live={live} what="quotas">
            {(t) => (
              <>
                {t.fault && <p class="toned tone-bad">What is stored is not understood, and the defaults hold: {t.fault}</p>}
                <Table
                  caption="Quotas"
                  columns={columns}
                  rowKey={(r) => r.name}
                  rows={[
                    { name: 'Weight', value: number(t.weight), about: 'Its share where tenants compete. Others have 1.' },
                    ...quotaKinds.map((k) => ({ name: k.label, value: quotaWords(t.quotas as QuotasLike, k.name), about: k.about })),
                    { name: 'Retention', value: retentionWords(t.retention), about: 'For how long the history of its runs is kept.' },
                    { name: 'Encryption', value: encryptionWords(t.encrypt_payloads), about: 'Names, labels, tasks and URLs are stored as they are.' },
                  ]}
                />
                {!(may('admin') && maySeeAll()) && (
                  <p class="muted row">
                    <Icon name="person" size={14} /> They are stated by who has a key of the tenant system:
                    <code>carillon tenant set {name} --runs-per-minute 6000</code>
                  </p>
                )}
              </>
            )}
          </Answered>
        </Panel>
        {live.data && <Usage tenant={name} quotas={live.data.quotas} />}
      </div>
    </View>
  );
}
