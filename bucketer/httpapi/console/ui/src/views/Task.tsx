import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function TaskView({ params }: ViewParams) {
  return (
    <View title={`Task ${params.name}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
