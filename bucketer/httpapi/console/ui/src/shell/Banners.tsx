// What is wrong with the page as a whole, in one sentence each. It goes by itself when it is over.

import type { ComponentChildren } from 'preact';
import { chosenTenant, trouble } from '../api/client';
import { liveOn } from '../api/live';
import { firstVersion, who } from '../api/session';
import { clockOffset, clockWrong, localNow } from '../clock';
import { Icon } from '../parts/Icon';
import { setQuery } from '../router';
import { coarse } from '../time';

export function Banners() {
  const wrong = trouble.value;
  const w = who.value;
  const other = w && firstVersion.value !== undefined && w.version !== firstVersion.value;
  const foreign = w && !w.tenants_all && chosenTenant.value !== '' && chosenTenant.value !== w.tenant;
  return (
    <div class="banners" role="status" aria-live="polite">
      {wrong && (
        <Banner tone="bad">
          {wrong.problem.sentence} <Since at={wrong.since} /> The page tries again by itself; what it shows may be old.
        </Banner>
      )}
      {foreign && (
        <Banner tone="bad" action={{ text: `Show ${w.tenant}`, act: () => setQuery({ tenant: '' }) }}>
          The address asks for the tenant {chosenTenant.value}, but your key is one of the tenant {w.tenant}.
        </Banner>
      )}
      {other && (
        <Banner tone="warn" action={{ text: 'Load it anew', act: () => location.reload() }}>
          A node of {w.version === '' ? 'an older version' : `version ${w.version}`} answers now; this page is of{' '}
          {firstVersion.value}. Load the page anew when all nodes have the same version.
        </Banner>
      )}
      {clockWrong.value && (
        <Banner tone="warn">
          The clock of your computer is {coarse(Math.abs(clockOffset.value))} {clockOffset.value > 0 ? 'slow' : 'fast'}.
          The page goes by the clock of the node.
        </Banner>
      )}
      {w?.read_only && <Banner tone="still">This node takes no changes: it is configured to be read only.</Banner>}
      {!liveOn.value && (
        <Banner
          tone="warn"
          action={{
            text: 'Go on',
            act: () => {
              liveOn.value = true;
            },
          }}
        >
          The page is held still: nothing is asked for anew.
        </Banner>
      )}
    </div>
  );
}

function Since({ at }: { at: number }) {
  // To ten seconds: it is read out whenever it changes.
  const since = Math.floor((localNow.value - at) / 10_000) * 10_000;
  return since < 10_000 ? null : <>It began {coarse(since)} ago.</>;
}

function Banner(props: {
  tone: 'bad' | 'warn' | 'still';
  action?: { text: string; act: () => void };
  children: ComponentChildren;
}) {
  return (
    <div class={`banner tone-${props.tone}`}>
      <Icon name={props.tone === 'still' ? 'slash' : 'warning'} />
      <p>{props.children}</p>
      {props.action && (
        <button type="button" class="button small" onClick={props.action.act}>
          {props.action.text}
        </button>
      )}
    </div>
  );
}
