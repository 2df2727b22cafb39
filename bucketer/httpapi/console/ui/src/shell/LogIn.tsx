// Exchanges an API key for a session: a cookie that no script can read.

import { useEffect, useRef, useState } from 'preact/hooks';
import { useAction } from '../api/action';
import type { Problem } from '../api/problem';
import { atProvider, logIn } from '../api/session';
import { Command } from '../parts/Empty';
import { TextField } from '../parts/Field';
import { Icon } from '../parts/Icon';
import { Refusal } from '../parts/Refusal';

export function LogIn({ why }: { why: Problem | undefined }) {
  const [key, setKey] = useState('');
  const action = useAction();
  const { problem } = action;
  const card = useRef<HTMLDivElement>(null);
  // What had the focus is gone with the view.
  useEffect(() => card.current?.querySelector<HTMLElement>('input:not([hidden])')?.focus(), []);
  return (
    <main class="log-in">
      <div class="log-in-card" ref={card}>
        <div class="brand">
          <img src="./icon.svg" alt="" />
          Carillon
        </div>
        <h1 tabIndex={-1}>Log in</h1>
        {why && !problem && (
          <p class="note warn" role="status">
            <Icon name="warning" />
            <span>Your session is over: {why.detail || why.title} What you see next is where you were.</span>
          </p>
        )}
        {!isSecureContext && (
          <p class="note warn">
            <Icon name="warning" />
            <span>
              This page came by plain HTTP from {location.host}. A browser keeps a session only over HTTPS, or from
              localhost: put TLS in front of the node, or use a tunnel.
            </span>
          </p>
        )}
        {atProvider.value && (
          <>
            {/* Relative, as a proxy may serve the node below a path of its own. */}
            <a class="button primary" href="../login">
              Log in at the provider
            </a>
            <p class="muted">Or with a key:</p>
          </>
        )}
        <form
          class="stack"
          onSubmit={(e) => {
            e.preventDefault();
            void action.run(() => logIn(key.trim()));
          }}
        >
          {/* For password managers: the key is kept under the name of the address. */}
          <input type="text" name="username" value={location.host} autocomplete="username" readOnly hidden />
          <TextField
            label="API key"
            type="password"
            autocomplete="current-password"
            value={key}
            onValue={setKey}
            faults={problem?.status === 401 ? ['The key is not known, was revoked, or has expired.'] : []}
          />
          {problem && problem.status !== 401 && <Refusal problem={problem} what="You are not logged in" />}
          <button type="submit" class="button primary" disabled={action.busy || key.trim() === ''}>
            {action.busy ? 'Asking the node' : 'Log in'}
          </button>
        </form>
        <details>
          <summary>I have no key</summary>
          <div class="stack">
            <p>Who has a key of the role admin makes one:</p>
            <Command text="carillon key create my-laptop --role operator" />
          </div>
        </details>
      </div>
    </main>
  );
}
