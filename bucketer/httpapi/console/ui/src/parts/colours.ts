// Colours of the style sheet, for what is drawn on a canvas.

import { signal } from '@preact/signals';
import { theme } from '../preferences';

const dark = matchMedia('(prefers-color-scheme: dark)');
const changes = signal(0);
dark.addEventListener('change', () => {
  changes.value++;
});

/** Changes when the colours do: a drawing that reads it is made anew. */
export function colourVersion(): string {
  return `${theme.value} ${changes.value}`;
}

/** The value of a colour of tokens.css, such as "--good", where an element stands. */
export function colourOf(element: Element, name: string): string {
  const probe = document.createElement('span');
  probe.style.setProperty('color', `var(${name})`);
  element.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** The same colour, partly transparent: rgb(1, 2, 3) becomes rgba(1, 2, 3, 0.4). */
export function faded(colour: string, alpha: number): string {
  const parts =
    /^rgba?\(([^)]+)\)$/
      .exec(colour)?.[1]
      ?.split(/[,\s/]+/)
      .filter(Boolean) ?? [];
  return parts.length < 3 ? colour : `rgba(${parts[0]}, ${parts[1]}, ${parts[2]}, ${alpha})`;
}
