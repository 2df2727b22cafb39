import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function SigningKeys(_props: ViewParams) {
  return (
    <View title="Signing keys">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
