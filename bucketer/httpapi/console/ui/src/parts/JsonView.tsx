// JSON, or a text, of somebody else: a payload, an output, an answer. It is shown as it is, whatever it
// holds, and only in part if it is long.

import { useMemo, useState } from 'preact/hooks';
import { cut, plain, tokens } from '../text';
import { bytes } from '../words';
import { CopyButton } from './CopyCurl';

/** What is shown at first of a long text, in characters. */
const shownAtFirst = 20_000;
/** Beyond this it is not coloured, in characters. */
const colouredAtMost = 100_000;

export interface JsonViewProps {
  /** What it is: "Payload". */
  label: string;
  value: unknown;
}

export function JsonView({ label, value }: JsonViewProps) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? '', [value]);
  return <TextView label={label} text={text} json />;
}

export interface TextViewProps {
  label: string;
  text: string;
  json?: boolean;
  /** Of the file it may be kept as; absent: it cannot. */
  file?: string;
}

export function TextView({ label, text, json = false, file }: TextViewProps) {
  const [whole, setWhole] = useState(false);
  const shown = useMemo(() => plain(whole ? text : cut(text, shownAtFirst)), [text, whole]);
  const parts = useMemo(() => (json && shown.length <= colouredAtMost ? tokens(shown) : undefined), [json, shown]);
  return (
    <div class="text-view">
      <div class="text-view-actions">
        <CopyButton text={text} name={`Copy ${label.toLowerCase()}`} />
        {file !== undefined && <SaveButton text={text} file={file} />}
      </div>
      <pre dir="ltr" tabIndex={0} role="region" aria-label={label}>
        <code>
          {parts
            ? parts.map((t, i) => (
                <span key={i} class={`json-${t.kind}`}>
                  {t.text}
                </span>
              ))
            : shown}
        </code>
      </pre>
      {!whole && text.length > shownAtFirst && (
        <button type="button" class="button small" onClick={() => setWhole(true)}>
          Show all ({bytes(new Blob([text]).size)})
        </button>
      )}
    </div>
  );
}

/** Keeps a text as a file. */
export function SaveButton({ text, file }: { text: string; file: string }) {
  return (
    <button
      type="button"
      class="button small"
      onClick={() => {
        saveFile(file, new Blob([text], { type: 'text/plain' }));
      }}
    >
      Save as a file
    </button>
  );
}

export function saveFile(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
