// What a change made of something: two sides as JSON, line by line. The audit log may have cut a long
// side, and then says so by a text in its place.

import { useMemo } from 'preact/hooks';
import { diffLines, folded, plain } from '../text';
import { count } from '../words';
import { Icon } from './Icon';

/** `whole` says that texts are what is compared, and not what was cut. */
export function Diff({ before, after, whole = false }: { before: unknown; after: unknown; whole?: boolean }) {
  const lines = useMemo(() => folded(diffLines(sideOf(before), sideOf(after))), [before, after]);
  const cut = whole ? [] : [typeof before === 'string' && 'before', typeof after === 'string' && 'after'].filter(Boolean);
  if (before === undefined && after === undefined) {
    return <p class="muted">The audit log keeps nothing of what was changed.</p>;
  }
  return (
    <div class="stack">
      {cut.length > 0 && (
        <p class="note warn">
          <Icon name="warning" />
          <span>The side {cut.join(' and ')} was too long for the audit log, which keeps its begin: what differs may be missing here.</span>
        </p>
      )}
      <pre class="diff" dir="ltr" tabIndex={0} role="region" aria-label="What was changed">
        {lines.map((line, i) =>
          typeof line === 'number' ? (
            <div key={i} class="diff-fold">
              {count(line, 'line')} the same
            </div>
          ) : (
            <div key={i} class={`diff-${line.kind}`}>
              <span class="diff-mark">{{ same: ' ', gone: '−', new: '+' }[line.kind]}</span>
              <bdi>{plain(line.text)}</bdi>
            </div>
          ),
        )}
      </pre>
    </div>
  );
}

function sideOf(side: unknown): string {
  if (side === undefined || side === null) {
    return '';
  }
  return typeof side === 'string' ? side : JSON.stringify(side, null, 2);
}
