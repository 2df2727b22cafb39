// Who the person is, and what they may do.

import { computed, effect, signal } from '@preact/signals';
import { noteServerTime } from '../clock';
import { ask, chosenTenant, signedOut } from './client';
import type { Whoami } from './coming';
import { asProblem, Problem } from './problem';

export type Role = Whoami['role'];

export type Session =
  | { state: 'asking' }
  | { state: 'in'; who: Whoami }
  | { state: 'out'; why: Problem | undefined }
  | { state: 'failed'; problem: Problem };

export const session = signal<Session>({ state: 'asking' });

/** Whether the node has browsers log in at a provider. */
export const atProvider = signal(false);

/** Whoever is known, if anybody is. */
export const who = computed<Whoami | undefined>(() => (session.value.state === 'in' ? session.value.who : undefined));

/** The tenant whose things are shown. */
export const tenant = computed(() =>
  chosenTenant.value === '' ? (who.value?.tenant ?? 'default') : chosenTenant.value,
);

/** The version of the node that answered first. Another one since then serves another page. */
export const firstVersion = signal<string | undefined>(undefined);

const ranks: readonly Role[] = ['viewer', 'operator', 'admin'];

/** Whether the person may do what asks for a role. The server decides; this shows and hides buttons. */
export function may(role: Role): boolean {
  const w = who.value;
  return w !== undefined && ranks.indexOf(w.role) >= ranks.indexOf(role) && (role === 'viewer' || !w.read_only);
}

/** Whether the person may see what asks for a role, on a node that takes no writes as well. */
export function maySee(role: Role): boolean {
  const w = who.value;
  return w !== undefined && ranks.indexOf(w.role) >= ranks.indexOf(role);
}

/** Whether the person may see what belongs to no one tenant. */
export function maySeeAll(): boolean {
  return who.value?.tenants_all === true;
}

/** A node that does not say who one is: everything is shown, and the node refuses what is not allowed. */
const unknown: Whoami = {
  tenant: 'default',
  tenants_all: true,
  role: 'admin',
  auth: false,
  read_only: false,
  actor: 'unknown',
  node: '',
  version: '',
  session: false,
  time: '',
};

/** Asks who the person is. It never throws: the session says how it went. */
export async function askWho(): Promise<void> {
  const sent = Date.now();
  try {
    // For no other tenant than the key's: one that does not exist must not shut the person out.
    const w = await ask<Whoami>('/v1/whoami', { headers: { 'Carillon-Tenant': '' } });
    noteServerTime(Date.parse(w.time), sent, Date.now());
    firstVersion.value ??= w.version;
    signedOut.value = undefined;
    session.value = { state: 'in', who: w };
  } catch (thrown) {
    const problem = asProblem(thrown);
    if (problem.status === 401) {
      signOut(problem);
    } else if (problem.notOffered) {
      session.value = { state: 'in', who: unknown };
    } else if (session.peek().state !== 'in') {
      session.value = { state: 'failed', problem };
    }
  }
}

function signOut(problem: Problem): void {
  atProvider.value = problem.provider;
  // Only a session that was there can have ended: a first visit is no fault.
  const was = session.peek();
  if (was.state !== 'out') {
    session.value = { state: 'out', why: was.state === 'in' ? problem : undefined };
  }
}

effect(() => {
  if (signedOut.value) {
    signOut(signedOut.value);
  }
});

/** Exchanges an API key for a cookie that this page cannot read. */
export async function logIn(key: string): Promise<void> {
  await ask<void>('/v1/session', { method: 'POST', body: { key }, headers: { 'Carillon-Tenant': '' } });
  await askWho();
}

export async function logOut(): Promise<void> {
  await ask<void>('/v1/session', { method: 'DELETE', headers: { 'Carillon-Tenant': '' } });
  session.value = { state: 'out', why: undefined };
}

/** How often the page asks again who the person is, in ms: it learns of a new version, and of a role. */
const every = 30_000;
/** The same while nobody answers. */
const everyFailed = 3000;

/** Begins to ask, and goes on while the page is seen. */
export function keepSession(): void {
  const again = async (): Promise<void> => {
    if (!document.hidden && session.peek().state !== 'out') {
      await askWho();
    }
    setTimeout(() => void again(), session.peek().state === 'failed' ? everyFailed : every);
  };
  void again();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && session.peek().state !== 'out') {
      void askWho();
    }
  });
}
