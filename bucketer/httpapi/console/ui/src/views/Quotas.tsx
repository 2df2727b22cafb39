import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Quotas(_props: ViewParams) {
  return (
    <View title="Quotas">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
