import { beforeEach, describe, expect, it, vi } from 'vitest';

const listeners = new Map<string, () => void>();
const location = { hash: '#/jobs/new' };
vi.stubGlobal('location', location);
vi.stubGlobal('history', {
  state: null,
  pushState: (_state: unknown, _title: string, hash: string) => {
    location.hash = hash;
  },
});
vi.stubGlobal('addEventListener', (name: string, act: () => void) => listeners.set(name, act));
const { guardPlace, place } = await import('./router');

/** What browsers do when somebody follows a link, or goes back. */
async function follow(hash: string): Promise<void> {
  location.hash = hash;
  listeners.get('hashchange')?.();
  await settled();
}

async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await Promise.resolve();
  }
}

describe('guardPlace', () => {
  beforeEach(async () => {
    await follow('#/jobs/new');
  });

  it('keeps the view and its address where one stays', async () => {
    const end = guardPlace(() => Promise.resolve(false));
    await follow('#/jobs');
    expect([place.value.path, location.hash]).toEqual(['/jobs/new', '#/jobs/new']);
    end();
    await follow('#/jobs');
    expect(place.value.path).toBe('/jobs');
  });

  it('lets go where one leaves', async () => {
    const end = guardPlace(() => Promise.resolve(true));
    await follow('#/runs?state=failed');
    expect([place.value.path, place.value.query.get('state')]).toEqual(['/runs', 'failed']);
    end();
  });

  it('asks nothing where the view stays', async () => {
    const ask = vi.fn(() => Promise.resolve(false));
    const end = guardPlace(ask);
    await follow('#/jobs/new?edit=json');
    expect([ask.mock.calls.length, place.value.query.get('edit')]).toEqual([0, 'json']);
    end();
  });

  it('asks once, and goes where the address leads in the end', async () => {
    let say: (may: boolean) => void = () => {};
    const ask = vi.fn(() => new Promise<boolean>((resolve) => (say = resolve)));
    const end = guardPlace(ask);
    await follow('#/jobs');
    await follow('#/tasks');
    expect([ask.mock.calls.length, place.value.path]).toEqual([1, '/jobs/new']);
    say(true);
    await settled();
    expect(place.value.path).toBe('/tasks');
    end();
  });

  it('is ended by who began it alone', async () => {
    const first = guardPlace(() => Promise.resolve(true));
    const second = guardPlace(() => Promise.resolve(false));
    first();
    await follow('#/jobs');
    expect(place.value.path).toBe('/jobs/new');
    second();
  });
});
