// Which region serves each home of shards, asked by whoever shows it.

import { regionsAsker } from '../homes';
import { answer, api } from './client';
import { useLive, type Live } from './live';
import type { Regions } from './types';

const asker = regionsAsker((signal) => answer(api.GET('/v1/regions', { signal })));

/** The regions; without regions nothing, and then nothing is asked any more. */
export function useRegions(every: number): Live<Regions> {
  return useLive<Regions>(asker.none.value ? null : 'regions', asker.load, { every });
}
