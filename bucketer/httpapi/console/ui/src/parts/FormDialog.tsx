// A dialogue in which something is filled in and sent: its fields, what the API refused, and two buttons.

import type { ComponentChildren } from 'preact';
import type { Action } from '../api/action';
import { Dialog } from './Dialog';
import { Refusal } from './Refusal';

export interface FormDialogProps {
  title: string;
  action: Action;
  /** What is said if it is refused: "The key was not made". */
  what: string;
  /** On the button that sends it. */
  send: string;
  /** Whether enough is filled in. */
  ready?: boolean;
  wide?: boolean;
  onSend: () => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}

export function FormDialog({ title, action, what, send, ready = true, wide, onSend, onClose, children }: FormDialogProps) {
  return (
    <Dialog title={title} wide={wide} onClose={onClose}>
      <form
        class="stack"
        autocomplete="off"
        onSubmit={(e) => {
          e.preventDefault();
          if (ready) {
            void onSend();
          }
        }}
      >
        {children}
        <Refusal problem={action.problem} what={what} form focus />
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" class="button primary" disabled={action.busy || !ready}>
            {send}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
