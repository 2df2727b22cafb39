import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function JobNew(_props: ViewParams) {
  return (
    <View title="New job">
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}

export function JobEdit({ params }: ViewParams) {
  return (
    <View title={`Change ${params.id}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
