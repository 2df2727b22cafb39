// A sentence that stands out: what is wrong, or what is waited for.

import type { ComponentChildren } from 'preact';
import { Icon, type IconName } from './Icon';

export interface NoteProps {
  tone?: 'bad' | 'warn' | 'still' | 'run';
  icon?: IconName;
  /** Is read out at once: for what must not be missed. */
  alert?: boolean;
  /** Stands below the sentence: a button, a command. */
  more?: ComponentChildren;
  children: ComponentChildren;
}

export function Note({ tone = 'run', icon = 'warning', alert = false, more, children }: NoteProps) {
  return (
    <div class={`note ${tone}`} role={alert ? 'alert' : undefined}>
      <Icon name={icon} />
      <div class="note-body">
        <p>{children}</p>
        {more}
      </div>
    </div>
  );
}
