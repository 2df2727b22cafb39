import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Operations(_props: ViewParams) {
  return (
    <View title="Operations">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
