// A field of a form: its label, a word of help, and what the API found wrong with it.

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { faultsAt, type Problem } from '../api/problem';
import { Icon } from './Icon';

/** What the input of a field needs: spread it. */
export interface InputProps {
  id: string;
  'aria-describedby': string | undefined;
  'aria-invalid': 'true' | undefined;
}

export interface FieldProps {
  label: string;
  /** Where the API finds fault with it: "body.schedule.cron". */
  at?: string;
  problem?: Problem | undefined;
  /** Faults that this page found itself. */
  faults?: readonly string[];
  help?: ComponentChildren;
  class?: string;
  optional?: boolean;
  children: (input: InputProps) => ComponentChildren;
}

export function Field({ label, at, problem, faults = [], help, class: extra = '', optional, children }: FieldProps) {
  const id = useId();
  const wrong = [
    ...(at === undefined ? [] : faultsAt(problem, at).map((f) => messageOf(f.location, f.message, at))),
    ...faults,
  ];
  const described = [help !== undefined && `${id}-help`, wrong.length > 0 && `${id}-wrong`].filter(Boolean);
  return (
    <div class={`field ${wrong.length > 0 ? 'wrong' : ''} ${extra}`} data-at={at}>
      <label for={id}>
        {label}
        {optional && <span class="muted"> (may be left out)</span>}
      </label>
      {children({
        id,
        'aria-describedby': described.length > 0 ? described.join(' ') : undefined,
        'aria-invalid': wrong.length > 0 ? 'true' : undefined,
      })}
      {wrong.length > 0 && (
        <ul class="field-wrong" id={`${id}-wrong`}>
          {wrong.map((text) => (
            <li key={text}>
              <Icon name="warning" size={14} /> {text}
            </li>
          ))}
        </ul>
      )}
      {help !== undefined && (
        <div class="field-help" id={`${id}-help`}>
          {help}
        </div>
      )}
    </div>
  );
}

/** A fault below the field says where. */
function messageOf(location: string, message: string, at: string): string {
  const rest = location.slice(at.length).replace(/^\./, '');
  return rest === '' ? message : `${rest}: ${message}`;
}

export function TextField(
  props: Omit<FieldProps, 'children'> & {
    value: string;
    onValue: (value: string) => void;
    placeholder?: string;
    type?: 'text' | 'url' | 'number' | 'datetime-local' | 'password' | 'search';
    list?: string;
    mono?: boolean;
    autocomplete?: string;
    disabled?: boolean;
  },
) {
  const { value, onValue, placeholder, type = 'text', list, mono, autocomplete = 'off', disabled, ...field } = props;
  return (
    <Field {...field}>
      {(input) => (
        <input
          {...input}
          {...({ type, list } as { type: 'text'; list?: string })}
          value={value}
          placeholder={placeholder}
          autocomplete={autocomplete}
          spellcheck={false}
          disabled={disabled}
          step={type === 'datetime-local' ? '1' : undefined}
          class={mono ? 'mono' : undefined}
          onInput={(e) => onValue(e.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export interface Option {
  value: string;
  text: string;
}

export function SelectField(
  props: Omit<FieldProps, 'children'> & { value: string; onValue: (value: string) => void; options: readonly Option[] },
) {
  const { value, onValue, options, ...field } = props;
  return (
    <Field {...field}>
      {(input) => (
        <select {...input} value={value} onChange={(e) => onValue(e.currentTarget.value)}>
          {options.map((o) => (
            <option key={o.value} value={o.value} selected={o.value === value}>
              {o.text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function AreaField(
  props: Omit<FieldProps, 'children'> & {
    value: string;
    onValue: (value: string) => void;
    rows?: number;
    placeholder?: string;
  },
) {
  const { value, onValue, rows = 5, placeholder, ...field } = props;
  return (
    <Field {...field}>
      {(input) => (
        <textarea
          {...input}
          class="mono"
          rows={rows}
          spellcheck={false}
          placeholder={placeholder}
          value={value}
          onInput={(e) => onValue(e.currentTarget.value)}
        />
      )}
    </Field>
  );
}
