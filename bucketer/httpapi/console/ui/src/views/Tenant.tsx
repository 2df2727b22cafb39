import { View } from '../parts/View';
import type { ViewParams } from '../routes';

export function TenantView({ params }: ViewParams) {
  return (
    <View title={`Tenant ${params.name}`}>
      <p class="muted">This view is still to be built.</p>
    </View>
  );
}
