import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function DeadLetter({ params }: ViewParams) {
  return (
    <View title={`Dead letter ${params.id}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
