import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Runs(_props: ViewParams) {
  return (
    <View title="Runs">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
