// Shapes. Each is drawn, not a letter, so that no font is needed; they say nothing to screen readers,
// since a word always stands beside them.

import type { ComponentChildren, JSX } from 'preact';

const shapes = {
  check: <path d="M3 8.5l3.2 3.2L13 4.8" />,
  cross: <path d="M4 4l8 8M12 4l-8 8" />,
  dots: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.6" />,
  play: <path d="M5 3.5v9l7.5-4.5z" fill="currentColor" />,
  ring: <circle cx="8" cy="8" r="4.8" />,
  again: <path d="M12.8 8.2a4.8 4.8 0 1 1-1.5-3.6M12.6 2v3.2H9.4" />,
  pause: <path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2.6" />,
  warning: <path d="M8 2.2L14.6 13.5H1.4zM8 6.5v3M8 11.6v.01" />,
  diamond: <path d="M8 2l6 6-6 6-6-6z" />,
  slash: (
    <>
      <circle cx="8" cy="8" r="5.2" />
      <path d="M4.4 11.6l7.2-7.2" />
    </>
  ),
  skip: <path d="M3 4v8l5-4zM8.5 4v8l5-4z" fill="currentColor" stroke-width="1" />,
  square: <rect x="4" y="4" width="8" height="8" fill="currentColor" />,
  clock: (
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="M8 5v3.300l2.2 1.3" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 2.500h-6a2 2 0 0 0-2 2v6" />
    </>
  ),
  menu: <path d="M2.5 4.500h11M2.5 8h11M2.5 11.500h11" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.2" />
      <path d="M10.2 10.200L13.5 13.5" />
    </>
  ),
  down: <path d="M4 6l4 4 4-4" />,
  right: <path d="M6 4l4 4-4 4" />,
  plus: <path d="M8 3v10M3 8h10" />,
  minus: <path d="M3 8h10" />,
  sun: (
    <>
      <circle cx="8" cy="8" r="2.8" />
      <path d="M8 1.500v1.500M8 13v1.500M1.5 8H3M13 8h1.500M3.4 3.400l1 1M11.6 11.600l1 1M12.6 3.400l-1 1M4.4 11.600l-1 1" />
    </>
  ),
  moon: <path d="M13 9.600A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.600z" />,
  half: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 2.500v11a5.5 5.5 0 0 0 0-11z" fill="currentColor" />
    </>
  ),
  keys: (
    <>
      <rect x="1.5" y="4" width="13" height="8" rx="1.5" />
      <path d="M4 6.700h.01M6.7 6.700h.01M9.3 6.700h.01M12 6.700h.01M5 9.500h6" />
    </>
  ),
  person: (
    <>
      <circle cx="8" cy="5.5" r="2.7" />
      <path d="M2.8 13.500c.6-2.8 2.6-4.2 5.2-4.200s4.6 1.4 5.2 4.2" />
    </>
  ),
  link: <path d="M6.5 3.500h-3v9h9v-3M9 3h4v4M13 3L7.5 8.5" />,
} satisfies Record<string, JSX.Element>;

export type IconName = keyof typeof shapes;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {shapes[name]}
    </svg>
  );
}

/** A button with a shape and, if it has no children, a name for those who do not see it. */
export function IconButton(props: {
  icon: IconName;
  name: string;
  onClick: () => void;
  pressed?: boolean;
  expanded?: boolean;
  controls?: string;
  children?: ComponentChildren;
  class?: string;
}) {
  return (
    <button
      type="button"
      class={`button quiet icon-button ${props.class ?? ''}`}
      aria-label={props.name}
      title={props.name}
      aria-pressed={props.pressed}
      aria-expanded={props.expanded}
      aria-controls={props.controls}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
      {props.children}
    </button>
  );
}
