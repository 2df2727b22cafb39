import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Overview(_props: ViewParams) {
  return (
    <View title="Overview">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
