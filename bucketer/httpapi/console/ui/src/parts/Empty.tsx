// A list that is empty says why, and how to begin.

import type { ComponentChildren } from 'preact';
import { CopyButton } from './CopyCurl';

export interface EmptyProps {
  title: string;
  children?: ComponentChildren;
  /** Commands to begin with: of the program, or curl. */
  commands?: readonly string[];
}

export function Empty({ title, children, commands = [] }: EmptyProps) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
      {commands.map((command) => (
        <Command key={command} text={command} />
      ))}
    </div>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <pre tabIndex={0} role="region" aria-label="Command">
        <code>{text}</code>
      </pre>
      <CopyButton text={text} name="Copy the command" />
    </div>
  );
}
