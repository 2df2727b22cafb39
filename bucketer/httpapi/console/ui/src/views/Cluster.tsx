import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Cluster(_props: ViewParams) {
  return (
    <View title="Cluster">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
