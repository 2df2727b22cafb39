import { describe, expect, it } from 'vitest';
import { encryptionWords, retentionWords, tenantBody, textsOf } from './quotas';

const tenant = {
  name: 'billing',
  weight: 3,
  quotas: { jobs: 7, later: 9 },
  durability: 'everywhere' as const,
  audit: { creations: true },
  retention: 14,
  encrypt_payloads: true,
  created_at: '2026-11-01T00:00:00Z',
  updated_at: '2026-11-02T00:00:00Z',
};
const asItIs = {
  weight: 3,
  quotas: { jobs: 7, later: 9 },
  durability: 'everywhere',
  audit: { creations: true },
  retention: 14,
  encrypt_payloads: true,
};

describe('the form of a tenant', () => {
  it('changes nothing as it begins: what it does not show stays', () => {
    expect(tenantBody(tenant, textsOf(tenant))).toEqual({ body: asItIs, faults: { quotas: {} }, ok: true });
  });
  it('states retention and encryption, and takes them back', () => {
    const { body } = tenantBody(tenant, { ...textsOf(tenant), retention: ' ', encrypted: false, quotas: { jobs: '', concurrency: '1,000' } });
    expect(body).toEqual({ weight: 3, quotas: { later: 9, concurrency: 1000 }, durability: 'everywhere', audit: { creations: true } });
    const fresh = { name: 'a', weight: 1, quotas: {} };
    expect(tenantBody(fresh, textsOf(fresh)).body).toEqual({ weight: 1, quotas: {} });
    expect(tenantBody(fresh, { ...textsOf(fresh), retention: '3', encrypted: true }).body).toEqual({ weight: 1, quotas: {}, retention: 3, encrypt_payloads: true });
  });
  it('names all that is wrong', () => {
    const { faults, ok } = tenantBody(tenant, { weight: '0', retention: '0', encrypted: false, quotas: { jobs: 'many' } });
    expect(ok).toBe(false);
    expect(faults).toEqual({
      weight: 'must be a whole number from 1 on',
      retention: 'must be a whole number of days from 1 on, or empty',
      quotas: { jobs: 'must be a whole number, or empty for no bound' },
    });
  });
});

describe('words', () => {
  it('say how long and whether', () => {
    expect(retentionWords(1)).toBe('1 day');
    expect(retentionWords(undefined)).toBe('as long as the cluster keeps it');
    expect(encryptionWords(false)).toBe('none');
  });
});
