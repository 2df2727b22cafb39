import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Workflows(_props: ViewParams) {
  return (
    <View title="Workflows">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
