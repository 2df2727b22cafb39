import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function WorkflowRun({ params }: ViewParams) {
  return (
    <View title={`Workflow run ${params.id}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
