import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function RunView({ params }: ViewParams) {
  return (
    <View title={`Run ${params.id}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
