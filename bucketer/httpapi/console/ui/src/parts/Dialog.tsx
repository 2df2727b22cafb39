// A dialogue above the page. The browser keeps the focus in it, and gives it back.

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Icon } from './Icon';

export interface DialogProps {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}

/** It is open as long as it is drawn. */
export function Dialog({ title, onClose, wide, children }: DialogProps) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const box = dialog.current;
    if (box && !box.open) {
      box.showModal();
    }
    return () => box?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? 'wide' : undefined}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="button quiet icon-button" aria-label="Close" onClick={onClose}>
          <Icon name="cross" />
        </button>
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
