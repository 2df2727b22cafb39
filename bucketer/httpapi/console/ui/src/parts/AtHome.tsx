// At which home a thing lies, and which region serves it: a fact, where there are regions.

import { slow } from '../api/live';
import { useRegions } from '../api/regions';
import { homeOf, homeWords, whyThere } from '../homes';
import type { Fact } from './Facts';

function AtHome({ name, why }: { name: string; why: string }) {
  return (
    <>
      {homeWords(name, useRegions(slow).data)} <span class="muted">({why})</span>
    </>
  );
}

/** The home of what was answered. Without regions it has none, and nothing is asked. */
export function homeFact(answered: object): Fact {
  const home = homeOf(answered);
  return ['Home', home !== undefined && <AtHome name={home} why={whyThere(answered)} />];
}
