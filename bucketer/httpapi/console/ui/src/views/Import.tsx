import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Import(_props: ViewParams) {
  return (
    <View title="Import">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
