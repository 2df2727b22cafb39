// Facts about one thing: a name and a value each. Those without a value are left out.

import { Fragment, type ComponentChildren } from 'preact';

export type Fact = [name: string, value: ComponentChildren];

export function Facts({ facts }: { facts: readonly (Fact | false | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map((fact) =>
        fact && fact[1] !== undefined && fact[1] !== '' && fact[1] !== null && fact[1] !== false ? (
          <Fragment key={fact[0]}>
            <dt>{fact[0]}</dt>
            <dd>{fact[1]}</dd>
          </Fragment>
        ) : null,
      )}
    </dl>
  );
}

/** Labels of a job or a task. */
export function Labels({
  labels,
  hrefOf,
}: {
  labels: Record<string, string> | undefined;
  hrefOf?: (label: string) => string;
}) {
  const all = Object.entries(labels ?? {});
  if (all.length === 0) {
    return null;
  }
  return (
    <span class="labels">
      {all.map(([name, value]) => {
        const text = `${name}=${value}`;
        return hrefOf ? (
          <a key={name} class="label" href={hrefOf(text)}>
            <bdi>{text}</bdi>
          </a>
        ) : (
          <span key={name} class="label">
            <bdi>{text}</bdi>
          </span>
        );
      })}
    </span>
  );
}
