// At which home a thing lies, and which region serves it: a fact, where there are regions.

import { slow } from '../api/live';
import { useRegions } from '../api/regions';
import { homeOf, homeWords } from '../homes';
import type { Fact } from './Facts';

function AtHome({ name }: { name: string }) {
  return <>{homeWords(name, useRegions(slow).data)}</>;
}

/** The home of what was answered. Without regions it has none, and nothing is asked. */
export function homeFact(answered: object): Fact {
  const home = homeOf(answered);
  return ['Home', home !== undefined && <AtHome name={home} />];
}
