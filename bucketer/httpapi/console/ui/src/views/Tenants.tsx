import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Tenants(_props: ViewParams) {
  return (
    <View title="Tenants">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
