import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function Keys(_props: ViewParams) {
  return (
    <View title="API keys">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
