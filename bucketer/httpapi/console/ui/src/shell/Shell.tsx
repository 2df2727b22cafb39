// The frame: navigation, what holds for all views, and the view.

import { useEffect, useRef, useState } from 'preact/hooks';
import { forgetAll } from '../api/live';
import { askWho, session } from '../api/session';
import { ConfirmHost } from '../parts/Confirm';
import { KeyHelp } from '../parts/KeyHelp';
import { Refusal } from '../parts/Refusal';
import { Toasts } from '../parts/Toasts';
import { place } from '../router';
import { routeOf } from '../routes';
import { Banners } from './Banners';
import { LogIn } from './LogIn';
import { Sidebar } from './Sidebar';
import { Topbar } from './Topbar';

export function Shell() {
  const at = session.value;
  useEffect(() => {
    if (at.state === 'out') {
      forgetAll();
      document.title = 'Log in – Carillon';
    }
  }, [at.state]);
  return (
    <>
      {at.state === 'asking' && (
        <main class="log-in" aria-busy="true">
          <p class="muted">Asking the node who you are</p>
        </main>
      )}
      {at.state === 'out' && <LogIn why={at.why} />}
      {at.state === 'failed' && (
        <main class="log-in">
          <div class="log-in-card">
            <h1>Carillon cannot be reached</h1>
            <Refusal problem={at.problem}>
              <p>The page tries again every few seconds.</p>
              <button type="button" class="button small" onClick={() => void askWho()}>
                Try now
              </button>
            </Refusal>
          </div>
        </main>
      )}
      {at.state === 'in' && <Frame />}
      <ConfirmHost />
      <Toasts />
    </>
  );
}

function Frame() {
  const [menu, setMenu] = useState(false);
  const main = useRef<HTMLElement>(null);
  const { path } = place.value;
  const { route, params } = routeOf(path);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    // Whoever does not see the view change hears its title.
    setMenu(false);
    scrollTo(0, 0);
    (main.current?.querySelector<HTMLElement>('h1') ?? main.current)?.focus({ preventScroll: true });
  }, [path]);
  const Shown = route.view;
  return (
    <div class="shell">
      <a
        class="skip-link"
        href="#main"
        onClick={(e) => {
          e.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the view
      </a>
      <Sidebar open={menu} onGo={() => setMenu(false)} />
      <div class="frame">
        <header>
          <Topbar menu={menu} onMenu={() => setMenu(!menu)} />
          <Banners />
        </header>
        <main id="main" tabIndex={-1} ref={main}>
          <Shown key={path} params={params} />
        </main>
      </div>
      <KeyHelp />
    </div>
  );
}
