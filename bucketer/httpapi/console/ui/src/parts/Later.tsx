// A view, or a part of one, whose file is loaded when it is shown.

import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ViewParams } from '../routes';
import { Note } from './Note';
import { View } from './View';

/**
 * The view or the part that `pick` takes out of a file, which is asked for once that is shown. `Instead`
 * stands there if the file cannot be loaded.
 */
export function later<M, P extends object = ViewParams>(
  load: () => Promise<M>,
  pick: (file: M) => ComponentType<P>,
  Instead: ComponentType = Absent,
): ComponentType<P> {
  let file: M | undefined;
  return function Later(props: P) {
    const [state, setState] = useState<'loading' | 'there' | 'absent'>(file === undefined ? 'loading' : 'there');
    useEffect(() => {
      let left = false;
      if (file === undefined) {
        load().then(
          (came) => {
            file = came;
            if (!left) {
              setState('there');
            }
          },
          () => !left && setState('absent'),
        );
      }
      return () => {
        left = true;
      };
    }, []);
    useEffect(() => {
      // The focus waited for the title, as it does with every view.
      const main = document.activeElement;
      if (state !== 'loading' && main?.id === 'main') {
        main.querySelector('h1')?.focus({ preventScroll: true });
      }
    }, [state]);
    if (file !== undefined) {
      const Shown = pick(file);
      return <Shown {...props} />;
    }
    return state === 'absent' ? <Instead /> : (
      <div class="skeleton" aria-busy="true">
        <span class="hidden">Loading this view</span>
      </div>
    );
  };
}

function Absent() {
  return (
    <View title="This view could not be loaded">
      <Note
        tone="bad"
        alert
        more={
          <button type="button" class="button small" onClick={() => location.reload()}>
            Load the page anew
          </button>
        }
      >
        The node does not answer, or it is of another version than this page.
      </Note>
    </View>
  );
}
