// One tenant: its weight, quotas, retention and encryption, what it did in the last hour, and the
// way to look at its things.

import { answer, api } from '../api/client';
import { slow, useLive } from '../api/live';
import { may, maySeeAll, tenant as shownTenant, who } from '../api/session';
import { Changes } from '../parts/Changes';
import { CopyCurl } from '../parts/CopyCurl';
import { Facts } from '../parts/Facts';
import { Icon } from '../parts/Icon';
import { Answered, Panel } from '../parts/Panel';
import { QuotaForm } from '../parts/QuotaForm';
import { Tabs } from '../parts/Tabs';
import { TimeLabel } from '../parts/TimeLabel';
import { Usage } from '../parts/Usage';
import { View } from '../parts/View';
import { pathTo } from '../place';
import { encryptionWords, quotaKinds, quotaWords, retentionWords } from '../quotas';
import { href } from '../router';
import type { ViewParams } from '../routes';
import { number } from '../words';

export function TenantView({ params }: ViewParams) {
  const name = params.name ?? '';
  const live = useLive(
    `tenant ${name}`,
    (signal) => answer(api.GET('/v1/tenants/{name}', { params: { path: { name } }, signal })),
    { every: slow },
  );
  const own = name === who.value?.tenant;
  return (
    <View
      title={`Tenant ${name}`}
      above={[['Tenants', '/tenants']]}
      actions={
        <>
          {maySeeAll() && name !== shownTenant.value && (
            <a class="button primary" href={href('/', { tenant: own ? null : name })}>
              <Icon name="search" /> Look at its runs and jobs
            </a>
          )}
          <CopyCurl path={pathTo('/v1/tenants/:name', { name })} />
        </>
      }
    >
      <Answered live={live} what="this tenant">
        {(t) => (
          <Tabs
            label="Of the tenant"
            tabs={[
              {
                id: 'now',
                title: 'Weight and quotas',
                content: () => (
                  <div class="columns">
                    <Panel title="Weight and quotas" live={live} every={slow}>
                      {t.fault && <p class="toned tone-bad">What is stored of it is not understood, and it has the defaults: {t.fault}</p>}
                      {may('admin') && maySeeAll() ? (
                        <QuotaForm key={t.updated_at ?? ''} tenant={t} />
                      ) : (
                        <Facts
                          facts={[
                            ['Weight', number(t.weight)],
                            ...quotaKinds.map((k): [string, string] => [k.label, quotaWords(t.quotas, k.name)]),
                            ['Retention', retentionWords(t.retention)],
                            ['Encryption', encryptionWords(t.encrypt_payloads)],
                          ]}
                        />
                      )}
                      <p class="muted">
                        {t.updated_at ? (
                          <>
                            Last stated <TimeLabel at={t.updated_at} relative />
                          </>
                        ) : (
                          'Nothing was stated of it yet.'
                        )}
                      </p>
                    </Panel>
                    <Usage tenant={name} quotas={t.quotas} />
                  </div>
                ),
              },
              { id: 'changes', title: 'Revisions', content: () => <TenantChanges name={name} /> },
            ]}
          />
        )}
      </Answered>
    </View>
  );
}

function TenantChanges({ name }: { name: string }) {
  // The audit log is one tenant's: that of another is asked for as that tenant.
  return name === shownTenant.value ? (
    <Changes object={`tenant/${name}`} />
  ) : (
    <p class="absent">
      <Icon name="slash" />
      <span>
        Its audit log is its own: <a href={href(pathTo('/tenants/:name', { name }), { tenant: name, tab: 'changes' })}>look as {name}</a>.
      </span>
    </p>
  );
}
