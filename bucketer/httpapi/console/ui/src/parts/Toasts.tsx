// Short messages on what was done. They come by themselves, so they take no focus.

import { signal } from '@preact/signals';
import { Icon } from './Icon';

type Kind = 'good' | 'bad';

interface Toast {
  id: number;
  text: string;
  kind: Kind;
  link?: { href: string; text: string } | undefined;
}

const toasts = signal<readonly Toast[]>([]);
let last = 0;

/** How long a good message stays, in ms. A bad one stays until it is closed. */
const stay = 7000;
const most = 4;

/** Says something. `link` leads to what came of it. */
export function say(text: string, kind: Kind = 'good', link?: { href: string; text: string }): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(1 - most), { id, text, kind, link }];
  if (kind === 'good') {
    setTimeout(() => close(id), stay);
  }
}

function close(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts">
      <div role="status" aria-live="polite">
        {toasts.value
          .filter((t) => t.kind === 'good')
          .map((t) => (
            <One key={t.id} toast={t} />
          ))}
      </div>
      <div role="alert">
        {toasts.value
          .filter((t) => t.kind === 'bad')
          .map((t) => (
            <One key={t.id} toast={t} />
          ))}
      </div>
    </div>
  );
}

function One({ toast }: { toast: Toast }) {
  return (
    <div class={`toast ${toast.kind}`}>
      <Icon name={toast.kind === 'good' ? 'check' : 'warning'} />
      <span class="toast-text">{toast.text}</span>
      {toast.link && (
        <a href={toast.link.href} onClick={() => close(toast.id)}>
          {toast.link.text}
        </a>
      )}
      <button
        type="button"
        class="button quiet icon-button"
        aria-label="Close this message"
        onClick={() => close(toast.id)}
      >
        <Icon name="cross" />
      </button>
    </div>
  );
}
