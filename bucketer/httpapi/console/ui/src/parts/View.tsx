// What every view is in: its title (which takes the focus when one comes), a sentence, its buttons.

import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { href } from '../router';

export interface ViewProps {
  title: string;
  /** Beside the title: a badge. */
  badge?: ComponentChildren;
  about?: ComponentChildren;
  actions?: ComponentChildren;
  /** The lists above it: [["Jobs", "/jobs"]]. */
  above?: readonly (readonly [name: string, path: string])[];
  children: ComponentChildren;
}

export function View({ title, badge, about, actions, above = [], children }: ViewProps) {
  useEffect(() => {
    document.title = `${title} – Carillon`;
  }, [title]);
  return (
    <div class="view">
      <header class="view-head">
        <div class="view-title">
          {above.length > 0 && (
            <nav class="crumbs" aria-label="Above this">
              {above.map(([name, path]) => (
                <a key={path} class="underlined" href={href(path)}>
                  {name}
                </a>
              ))}
            </nav>
          )}
          <div class="row">
            <h1 tabIndex={-1}>{title}</h1>
            {badge}
          </div>
          {about && <p class="view-about">{about}</p>}
        </div>
        {actions && <div class="view-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
