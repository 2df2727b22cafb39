import { Empty } from '../parts/Empty';
import { View } from '../parts/View';
import { href, place } from '../router';
import type { ViewParams } from '../routes';

export function Nowhere(_props: ViewParams) {
  return (
    <View title="There is nothing here">
      <Empty title={`No view is at ${place.value.path}`}>
        <p>
          Go to the <a href={href('/')}>overview</a>.
        </p>
      </Empty>
    </View>
  );
}
