import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Tasks(_props: ViewParams) {
  return (
    <View title="Tasks">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
