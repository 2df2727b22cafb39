// What is to be known about the times of a schedule.

import { Icon } from './Icon';

export function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) {
    return null;
  }
  return (
    <ul class="notes">
      {[...new Set(notes)].map((note) => (
        <li key={note}>
          <Icon name="clock" size={14} /> {note}
        </li>
      ))}
    </ul>
  );
}
