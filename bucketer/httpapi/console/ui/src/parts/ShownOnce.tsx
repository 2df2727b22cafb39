// A secret that was just made. It is shown this once, and is nowhere in the page after it is closed.

import { useState } from 'preact/hooks';
import { CopyButton } from './CopyCurl';
import { Dialog } from './Dialog';
import { Icon } from './Icon';

export interface ShownOnceProps {
  title: string;
  secret: string;
  /** What to do with it. */
  about: string;
  onClose: () => void;
}

export function ShownOnce({ title, secret, about, onClose }: ShownOnceProps) {
  const [kept, setKept] = useState(false);
  return (
    // Escape and a stray click do not close it: it cannot be had again.
    <Dialog title={title} onClose={() => kept && onClose()}>
      <p class="note warn">
        <Icon name="warning" />
        <span>It is shown this once. It is stored nowhere in clear, and cannot be shown again.</span>
      </p>
      <div class="command">
        <pre tabIndex={0} role="region" aria-label="The secret">
          <code>{secret}</code>
        </pre>
        <CopyButton text={secret} name="Copy the secret" words="Copy" />
      </div>
      <p>{about}</p>
      <label class="check">
        <input type="checkbox" checked={kept} onChange={(e) => setKept(e.currentTarget.checked)} />I have kept it
      </label>
      <div class="dialog-actions">
        <button type="button" class="button primary" disabled={!kept} onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
