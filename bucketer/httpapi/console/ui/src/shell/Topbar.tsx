// What holds for all views: the tenant, how fresh the page is, the zone, the theme, the person.

import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import { freshness, liveOn, refreshAll, useLive } from '../api/live';
import { logOut, tenant, who } from '../api/session';
import type { Page } from '../api/types';
import { localNow, now } from '../clock';
import { helpOpen } from '../keys';
import { IconButton } from '../parts/Icon';
import { say } from '../parts/Toasts';
import { theme, zoneChoice, type Theme, type ZoneChoice } from '../preferences';
import { go, place } from '../router';
import { coarse, localZone, offsetWords } from '../time';
import { asProblem } from '../api/problem';

export function Topbar({ menu, onMenu }: { menu: boolean; onMenu: () => void }) {
  return (
    <div class="topbar">
      <IconButton class="menu-button" icon="menu" name="Views" expanded={menu} controls="views" onClick={onMenu} />
      <TenantSwitch />
      <div class="topbar-end">
        <Fresh />
        <ZoneSwitch />
        <ThemeSwitch />
        <IconButton
          class="wide-only"
          icon="keys"
          name="Keys"
          onClick={() => {
            helpOpen.value = true;
          }}
        />
        <Person />
      </div>
    </div>
  );
}

function TenantSwitch() {
  const w = who.value;
  const all = w?.tenants_all === true;
  const tenants = useLive<Page<{ name: string }>>(
    all ? 'tenants of the switch' : null,
    (signal) => ask('/v1/tenants', { query: { limit: 500 }, signal }),
    { every: 0 },
  );
  const names = tenants.data?.items.map((t) => t.name) ?? [];
  const [typed, setTyped] = useState<string | undefined>(undefined);
  if (!all) {
    return (
      <span>
        <span class="muted">Tenant</span> <strong>{tenant.value}</strong>
      </span>
    );
  }
  const choose = (name: string): void => {
    setTyped(undefined);
    if (name === '' || name === tenant.value) {
      return;
    }
    // What is shown is one tenant's: the list that it is from is there in each.
    const [, list = ''] = place.value.path.split('/');
    go(`/${list}`, { tenant: name === w?.tenant ? null : name });
  };
  return (
    <label class="inline">
      <span>Tenant</span>
      <input
        list="tenants"
        size={14}
        autocomplete="off"
        spellcheck={false}
        value={typed ?? tenant.value}
        onFocus={(e) => e.currentTarget.select()}
        onInput={(e) => {
          const { value } = e.currentTarget;
          setTyped(value);
          if (names.includes(value) && !(e instanceof InputEvent && e.inputType.startsWith('insertText'))) {
            choose(value);
          }
        }}
        onChange={(e) => choose(e.currentTarget.value.trim())}
      />
      <datalist id="tenants">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

function Fresh() {
  const { at, stale, held } = freshness.value;
  const age = at === undefined ? undefined : Math.max(0, localNow.value - at);
  let words = '';
  if (!liveOn.value) {
    words = 'held still';
  } else if (held) {
    words = 'still while you select';
  } else if (age !== undefined) {
    words = stale ? `not up to date: ${coarse(age)} old` : 'up to date';
  }
  return (
    <span class="freshness">
      <span class={`age ${stale ? 'stale' : ''} ${held || !liveOn.value ? 'held' : ''}`}>{words}</span>
      <IconButton
        icon={liveOn.value ? 'pause' : 'play'}
        name={liveOn.value ? 'Hold the page still' : 'Keep the page up to date'}
        onClick={() => {
          liveOn.value = !liveOn.value;
        }}
      />
      <IconButton icon="again" name="Ask for everything anew" onClick={refreshAll} />
    </span>
  );
}

function ZoneSwitch() {
  const local = localZone();
  const offset = offsetWords(Math.floor(now.value / 60_000) * 60_000, local);
  const choices: [ZoneChoice, string][] = [
    ['local', `${local}${offset === 'UTC' ? '' : ` ${offset}`}`],
    ['utc', 'UTC'],
    ['job', 'each job’s zone'],
  ];
  return (
    <label class="inline">
      <span>Times in</span>
      <select
        value={zoneChoice.value}
        onChange={(e) => {
          zoneChoice.value = e.currentTarget.value as ZoneChoice;
        }}
      >
        {choices.map(([value, text]) => (
          <option key={value} value={value} selected={value === zoneChoice.value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

const themes: readonly Theme[] = ['auto', 'light', 'dark'];

function ThemeSwitch() {
  const at = theme.value;
  const next = themes[(themes.indexOf(at) + 1) % themes.length] ?? 'auto';
  const icon = at === 'auto' ? 'half' : at === 'light' ? 'sun' : 'moon';
  return (
    <IconButton
      icon={icon}
      name={`Theme: ${at}. Change it to ${next}`}
      onClick={() => {
        theme.value = next;
      }}
    />
  );
}

function Person() {
  const w = who.value;
  if (!w) {
    return null;
  }
  const name = w.auth ? `${w.actor}, ${w.role}` : 'no keys are asked for';
  return (
    <span class="row">
      <span class={`muted small-text ${w.auth ? '' : 'wide-only'}`}>{name}</span>
      {w.session && (
        <button
          type="button"
          class="button small"
          onClick={() => {
            logOut().catch((thrown: unknown) => say(asProblem(thrown).sentence, 'bad'));
          }}
        >
          Log out
        </button>
      )}
    </span>
  );
}
