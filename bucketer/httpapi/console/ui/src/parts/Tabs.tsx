// Parts of a view of which one is shown. Which one stands in the address, as ?tab=.

import type { ComponentChildren } from 'preact';
import { useId, useRef } from 'preact/hooks';
import { queryValue, setQuery } from '../router';

export interface Tab {
  id: string;
  title: ComponentChildren;
  content: () => ComponentChildren;
}

/** The first tab is shown unless the address names another one. */
export function Tabs({ label, tabs, name = 'tab' }: { label: string; tabs: readonly Tab[]; name?: string }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const asked = queryValue(name);
  const shown = tabs.find((tab) => tab.id === asked) ?? tabs[0];
  if (!shown) {
    return null;
  }
  const show = (tab: Tab): void => setQuery({ [name]: tab === tabs[0] ? '' : tab.id, cursor: '' });
  const onKeyDown = (e: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    const at = tabs.indexOf(shown);
    const next =
      e.key === 'Home'
        ? 0
        : e.key === 'End'
          ? tabs.length - 1
          : step
            ? (at + step + tabs.length) % tabs.length
            : undefined;
    const tab = next === undefined ? undefined : tabs[next];
    if (tab) {
      e.preventDefault();
      show(tab);
      list.current?.querySelector<HTMLElement>(`[data-tab="${tab.id}"]`)?.focus();
    }
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            data-tab={tab.id}
            aria-selected={tab === shown}
            aria-controls={`${id}-panel`}
            tabIndex={tab === shown ? 0 : -1}
            onClick={() => show(tab)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${shown.id}`} key={shown.id}>
        {shown.content()}
      </div>
    </>
  );
}
