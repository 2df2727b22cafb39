import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Secrets(_props: ViewParams) {
  return (
    <View title="Secrets">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
