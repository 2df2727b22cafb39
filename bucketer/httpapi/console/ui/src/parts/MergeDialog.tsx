// Two people changed the same thing. What only one of them changed is taken; where both did, this person
// decides.

import { useMemo, useState } from 'preact/hooks';
import { threeWay, withValue, type Json, type JsonObject } from '../merge';
import { cut, plain } from '../text';
import { Dialog } from './Dialog';
import { TimeLabel } from './TimeLabel';

export interface MergeDialogProps {
  /** As it was when this person began. */
  base: JsonObject;
  mine: JsonObject;
  /** As it is now. */
  theirs: JsonObject;
  changedAt: string;
  onMerged: (merged: JsonObject) => void;
  onClose: () => void;
}

export function MergeDialog({ base, mine, theirs, changedAt, onMerged, onClose }: MergeDialogProps) {
  const merge = useMemo(() => threeWay(base, mine, theirs), [base, mine, theirs]);
  const [chosen, setChosen] = useState<Record<string, 'mine' | 'theirs'>>({});
  const open = merge.conflicts.filter((c) => chosen[c.path] === undefined);
  const apply = (): void => {
    let merged = merge.merged;
    for (const c of merge.conflicts) {
      if (chosen[c.path] === 'mine') {
        merged = withValue(merged, c.path, c.mine);
      }
    }
    onMerged(merged);
  };
  return (
    <Dialog title="Somebody else changed it meanwhile" wide onClose={onClose}>
      <p>
        It was changed at <TimeLabel at={changedAt} relative />, after you had opened it. Nothing of yours is saved yet.
      </p>
      {merge.onlyTheirs.length > 0 && (
        <p>
          Theirs, kept: <Paths paths={merge.onlyTheirs} />
        </p>
      )}
      {merge.onlyMine.length > 0 && (
        <p>
          Yours, taken: <Paths paths={merge.onlyMine} />
        </p>
      )}
      {merge.conflicts.length === 0 ? (
        <p>You changed different things: both can stay.</p>
      ) : (
        <p>Both of you changed what follows. Choose which is to stay.</p>
      )}
      {merge.conflicts.map((c) => (
        <fieldset key={c.path} class="conflict">
          <legend>
            <code>{c.path}</code> <span class="muted">was {words(c.before)}</span>
          </legend>
          {(['mine', 'theirs'] as const).map((side) => (
            <label key={side} class="check">
              <input
                type="radio"
                name={c.path}
                checked={chosen[c.path] === side}
                onChange={() => setChosen({ ...chosen, [c.path]: side })}
              />
              <span>
                {side === 'mine' ? 'yours: ' : 'theirs: '}
                <code>{words(c[side])}</code>
              </span>
            </label>
          ))}
        </fieldset>
      ))}
      <div class="dialog-actions">
        <button type="button" class="button" onClick={onClose}>
          Go back to the form
        </button>
        <button type="button" class="button primary" disabled={open.length > 0} onClick={apply}>
          Save both together
        </button>
      </div>
    </Dialog>
  );
}

function Paths({ paths }: { paths: readonly string[] }) {
  return (
    <>
      {paths.map((path) => (
        <code key={path} class="label">
          {path}
        </code>
      ))}
    </>
  );
}

/** A value in one line. */
function words(value: Json | undefined): string {
  return value === undefined ? 'absent' : plain(cut(JSON.stringify(value), 400));
}
