import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Audit(_props: ViewParams) {
  return (
    <View title="Audit">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
