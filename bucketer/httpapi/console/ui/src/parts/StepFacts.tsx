// What a step of a workflow does, and when.

import { changed, formatPlace, type Query } from '../place';
import { place } from '../router';
import { whenWords, workWords, type StepShape } from '../steps';
import { Facts } from './Facts';

export function ShapeFacts({ shape }: { shape: StepShape }) {
  return (
    <Facts
      facts={[
        ['Does', <bdi key="does">{workWords(shape)}</bdi>],
        ['After', shape.after.length > 0 && shape.after.join(', ')],
        ['Starts', shape.after.length > 0 ? (whenWords[shape.when] ?? shape.when) : 'at once'],
        ['If', shape.condition && <code>{shape.condition}</code>],
        ['Runs', shape.forEach && 'once for each item of a list'],
      ]}
    />
  );
}

/** The address of this view with another step, or other steps, chosen. */
export function stepsHref(changes: Query): string {
  return formatPlace(place.value.path, changed(place.value.query, changes));
}

/** The address of this view with a step chosen. */
export function stepHref(step: string): string {
  return stepsHref({ step });
}
