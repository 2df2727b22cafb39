import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Jobs(_props: ViewParams) {
  return (
    <View title="Jobs">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
