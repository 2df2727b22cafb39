// Copies: the request behind what is shown, as a command; an id; a text.

import { useRef, useState } from 'preact/hooks';
import { apiAddress, chosenTenant } from '../api/client';
import { who } from '../api/session';
import { curlText } from '../curl';
import { Icon } from './Icon';
import { say } from './Toasts';

/** The command for a request to the API, as this person would send it. */
export function curlOf(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): string {
  const tenant = chosenTenant.value;
  return curlText(
    {
      method,
      url: apiAddress(path),
      headers: tenant === '' ? headers : { 'Carillon-Tenant': tenant, ...headers },
      body,
    },
    { key: who.value?.auth === true },
  );
}

export function CopyCurl(props: { method?: string; path: string; body?: unknown; name?: string }) {
  const { method = 'GET', path, body, name = 'Copy as curl' } = props;
  return <CopyButton text={() => curlOf(method, path, body)} name={name} words={name} />;
}

/** A button that copies a text. Without words it is a shape alone. */
export function CopyButton(props: { text: string | (() => string); name: string; words?: string }) {
  const [done, setDone] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const copy = async (): Promise<void> => {
    const text = typeof props.text === 'string' ? props.text : props.text();
    if (await copyText(text)) {
      setDone(true);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setDone(false), 2000);
    } else {
      say(`This browser does not let the page copy. The text is: ${text}`, 'bad');
    }
  };
  return (
    <button
      type="button"
      class={`button small ${props.words === undefined ? 'quiet icon-button' : ''}`}
      aria-label={props.words === undefined ? props.name : undefined}
      title={props.words === undefined ? props.name : undefined}
      onClick={() => void copy()}
    >
      <Icon name={done ? 'check' : 'copy'} size={14} />
      {props.words !== undefined && <span>{done ? 'Copied' : props.words}</span>}
    </button>
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // not over plain HTTP: the old way
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'offscreen';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}

/** An id or a name that one may want to copy. */
export function Id({ text }: { text: string }) {
  return (
    <span class="id">
      <code>{text}</code>
      <CopyButton text={text} name={`Copy ${text}`} />
    </span>
  );
}
