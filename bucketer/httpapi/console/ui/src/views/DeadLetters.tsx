import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function DeadLetters(_props: ViewParams) {
  return (
    <View title="Dead letters">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
