import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function WorkflowForm({ params }: ViewParams) {
  return (
    <View title={params.name === undefined ? "New workflow" : `Change ${params.name}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
