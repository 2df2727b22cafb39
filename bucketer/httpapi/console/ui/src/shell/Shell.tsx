// The frame: navigation, what holds for all views, and the view.

import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { forgetAll } from '../api/live';
import { Problem } from '../api/problem';
import { askWho, session } from '../api/session';
import { ConfirmHost } from '../parts/Confirm';
import { KeyHelp } from '../parts/KeyHelp';
import { Refusal } from '../parts/Refusal';
import { Toasts } from '../parts/Toasts';
import { View } from '../parts/View';
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
  useLayoutEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    // Whoever does not see the view change hears its title.
    setMenu(false);
    scrollTo(0, 0);
    (main.current?.querySelector<HTMLElement>('h1') ?? main.current)?.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => (menu ? whileOpen(() => setMenu(false)) : undefined), [menu]);
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
          <Guarded key={path}>
            <Shown params={params} />
          </Guarded>
        </main>
      </div>
      <KeyHelp />
    </div>
  );
}

/** What holds while the menu of a narrow page is open: the focus is in it, and Esc or a touch beside it closes it. */
function whileOpen(close: () => void): () => void {
  document.querySelector<HTMLElement>('#views a')?.focus();
  const onKey = (e: KeyboardEvent): void => {
    if (e.key === 'Escape') {
      close();
      document.querySelector<HTMLElement>('[aria-controls="views"]')?.focus();
    }
  };
  const onPointer = (e: PointerEvent): void => {
    if (!(e.target instanceof Element && e.target.closest('#views, [aria-controls="views"]'))) {
      close();
    }
  };
  addEventListener('keydown', onKey);
  addEventListener('pointerdown', onPointer);
  return () => {
    removeEventListener('keydown', onKey);
    removeEventListener('pointerdown', onPointer);
  };
}

/** How long until a view that could not be drawn is tried again, in ms. */
const tryAgainAfter = 10_000;

/** A view that cannot be drawn, say because a node of another version answers otherwise, takes nothing else with it. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [thrown, again] = useErrorBoundary((error: unknown) => console.error(error)) as [unknown, () => void];
  useEffect(() => {
    const timer = thrown === undefined ? undefined : setTimeout(again, tryAgainAfter);
    return () => clearTimeout(timer);
  }, [thrown]);
  return thrown === undefined ? (
    <>{children}</>
  ) : (
    <View title="This view cannot be drawn">
      <Refusal problem={new Problem(0, 'page', 'Something went wrong in this page', String(thrown))}>
        <p>What the node answered may be of another version than this page. The page tries again by itself.</p>
        <button type="button" class="button small" onClick={() => location.reload()}>
          Load it anew
        </button>
      </Refusal>
    </View>
  );
}
