import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function WorkflowView({ params }: ViewParams) {
  return (
    <View title={`Workflow ${params.name}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
