package schema_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestNextFenceGrows(t *testing.T) {
	now := time.UnixMicro(1_000_000_000)
	for _, c := range []struct {
		name  string
		fence schema.Fence
	}{
		{"none", 0},
		{"one of long ago", 5},
		{"one of the same instant", schema.MakeFence(now) | 0x3ff},
		{"one of a clock that was ahead", schema.MakeFence(now.Add(time.Hour))},
	} {
		l := schema.Lease{Fence: c.fence}
		for range 100 {
			got := l.NextFence(now)
			if got <= c.fence || got < schema.Fence(now.UnixMicro()&^0x3ff) {
				t.Errorf("%s: NextFence of %d at %d = %d, want a higher one than both", c.name, c.fence, now.UnixMicro(), got)
			}
			if err := (schema.Lease{Fence: got}).Follows(l); err != nil {
				t.Errorf("%s: Follows = %v, want nil", c.name, err)
			}
		}
	}
}
