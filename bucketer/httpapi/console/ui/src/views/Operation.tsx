import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function OperationView({ params }: ViewParams) {
  return (
    <View title={`Operation ${params.id}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
