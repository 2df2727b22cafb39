// The filters of a list. They stand in the address, so a filtered list can be sent to a colleague.

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { place, queryValue, queryValues, setQuery } from '../router';
import { Icon } from './Icon';
import { lookOf } from './StateBadge';
import type { Option } from './Field';

export type Filter =
  | {
      kind: 'text';
      /** Its name in the address. */
      name: string;
      label: string;
      placeholder?: string;
      /** The field that / leads to. */
      main?: boolean;
      /** What may be chosen besides typing. */
      suggestions?: readonly string[];
    }
  | {
      kind: 'choice';
      name: string;
      label: string;
      options: readonly Option[];
      /** The word for no choice. */ any?: string;
    }
  | { kind: 'states'; name: string; label: string; states: readonly string[]; /** At most one. */ single?: boolean };

export interface FilterBarProps {
  filters: readonly Filter[];
  /** More of it: a choice of time, buttons. */
  children?: ComponentChildren;
  /** Other names in the address that "clear" removes. */
  clears?: readonly string[];
}

/** How long a person may pause while typing, in ms. */
const pause = 300;

export function FilterBar({ filters, children, clears = [] }: FilterBarProps) {
  const names = [...filters.map((f) => f.name), ...clears];
  const any = names.some((name) => place.value.query.has(name));
  return (
    <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
      {filters
        .filter((filter) => filter.kind !== 'states')
        .map((filter) => (
          <One key={filter.name} filter={filter} />
        ))}
      {children}
      {filters
        .filter((filter) => filter.kind === 'states')
        .map((filter) => (
          <One key={filter.name} filter={filter} />
        ))}
      {any && (
        <button
          type="button"
          class="button quiet small filter-clear"
          onClick={() => setQuery(Object.fromEntries([...names, 'cursor'].map((name) => [name, ''])))}
        >
          <Icon name="cross" size={14} /> Clear filters
        </button>
      )}
    </form>
  );
}

function set(name: string, value: string | readonly string[]): void {
  setQuery({ [name]: value, cursor: '' });
}

function One({ filter }: { filter: Filter }) {
  switch (filter.kind) {
    case 'text':
      return <Text filter={filter} />;
    case 'choice':
      return <Choice filter={filter} />;
    case 'states':
      return <States filter={filter} />;
  }
}

function Text({ filter }: { filter: Extract<Filter, { kind: 'text' }> }) {
  const id = useId();
  const stated = queryValue(filter.name);
  const [typed, setTyped] = useState(stated);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const sent = useRef(stated);
  useEffect(() => {
    // changed from elsewhere: Back, or a link
    if (stated !== sent.current) {
      sent.current = stated;
      setTyped(stated);
    }
  }, [stated]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (value: string): void => {
    clearTimeout(timer.current);
    sent.current = value.trim();
    set(filter.name, value.trim());
  };
  return (
    <div class={`filter ${filter.main ? 'main' : ''}`}>
      <label for={id}>{filter.label}</label>
      <input
        id={id}
        type="search"
        value={typed}
        placeholder={filter.placeholder}
        autocomplete="off"
        spellcheck={false}
        data-search={filter.main ? '' : undefined}
        list={filter.suggestions ? `${id}-list` : undefined}
        onInput={(e) => {
          const { value } = e.currentTarget;
          setTyped(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => send(value), pause);
        }}
        onKeyDown={(e) => {
          if (e.key === 'Enter') {
            send(e.currentTarget.value);
          } else if (e.key === 'Escape') {
            e.currentTarget.blur();
          }
        }}
      />
      {filter.suggestions && (
        <datalist id={`${id}-list`}>
          {filter.suggestions.map((s) => (
            <option key={s} value={s} />
          ))}
        </datalist>
      )}
    </div>
  );
}

function Choice({ filter }: { filter: Extract<Filter, { kind: 'choice' }> }) {
  const id = useId();
  const value = queryValue(filter.name);
  return (
    <div class="filter">
      <label for={id}>{filter.label}</label>
      <select id={id} value={value} onChange={(e) => set(filter.name, e.currentTarget.value)}>
        <option value="" selected={value === ''}>
          {filter.any ?? 'any'}
        </option>
        {filter.options.map((o) => (
          <option key={o.value} value={o.value} selected={o.value === value}>
            {o.text}
          </option>
        ))}
      </select>
    </div>
  );
}

function States({ filter }: { filter: Extract<Filter, { kind: 'states' }> }) {
  const chosen = queryValues(filter.name);
  return (
    <fieldset class="filter states">
      <legend>{filter.label}</legend>
      <div class="toggles">
        {filter.states.map((state) => {
          const on = chosen.includes(state);
          const look = lookOf(state);
          return (
            <button
              key={state}
              type="button"
              class={`toggle tone-${look.tone}`}
              aria-pressed={on}
              onClick={() => {
                const others = chosen.filter((s) => s !== state);
                set(filter.name, on ? others : filter.single ? [state] : [...others, state]);
              }}
            >
              <Icon name={look.icon} size={13} />
              {state}
            </button>
          );
        })}
      </div>
    </fieldset>
  );
}
