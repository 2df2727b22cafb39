import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function JobView({ params }: ViewParams) {
  return (
    <View title={`Job ${params.id}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
