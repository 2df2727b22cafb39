import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Events(_props: ViewParams) {
  return (
    <View title="Events">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
