// Stands in place of a form that the person may not use, and says why.

import { maySee } from '../api/session';
import { Icon } from './Icon';

/** `what` goes on after "Your key may not": "change tasks". */
export function MayNot({ what }: { what: string }) {
  return (
    <p class="absent">
      <Icon name="slash" />{' '}
      {maySee('operator') ? 'This node takes no changes: it is configured to be read only.' : `Your key may not ${what}.`}
    </p>
  );
}
