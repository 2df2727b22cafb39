package bucketer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A run is found by its idempotency key: that of a request for a day, that of an import's line with an
// instant by both, also after the number of shards was raised.
func TestARunIsFoundByItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 4})
		at := time.Now().Add(48*time.Hour + 300*time.Microsecond)
		now, line, later, other := keyed("now", time.Time{}), keyed("line", at), keyed("line", at.Add(time.Second)), keyed("line", at)
		other.Tenant = "u"
		made := w.batch(now, line, later, other)
		finds := func(tenant, key string, at time.Time, want schema.RunID) {
			t.Helper()
			got, err := w.KeyedRun(t.Context(), tenant, key, at)
			if want.IsZero() {
				if !errors.Is(err, schema.ErrNotFound) {
					t.Errorf("KeyedRun(%s, %s, %v) = %s, %v; want ErrNotFound", tenant, key, at, got, err)
				}
				return
			}
			if err != nil || got != want {
				t.Errorf("KeyedRun(%s, %s, %v) = %s, %v; want %s", tenant, key, at, got, err, want)
			}
		}
		lines := func() {
			t.Helper()
			finds("t", "line", at, made[1].Run)
			finds("t", "line", at.Add(time.Second), made[2].Run)
			finds("u", "line", at, made[3].Run)
		}
		var none schema.RunID
		finds("t", "now", time.Time{}, made[0].Run)
		lines()
		finds("t", "line", time.Time{}, none)              // it stands together with its instant
		finds("t", "line", at.Add(time.Millisecond), none) // … and with no other
		finds("t", "now", made[0].Run.Time(), none)
		finds("u", "now", time.Time{}, none)
		finds("t", "", time.Time{}, none)
		w.Setting.Shards, w.Setting.History = 64, []schema.ShardCount{{Shards: 4, Until: time.Now()}}
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		lines()
		w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{Fail: true} })
		for _, at := range []time.Time{at, {}} {
			if _, err := w.KeyedRun(t.Context(), "t", "line", at); !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("KeyedRun at %v while the store fails = %v, want ErrUnavailable", at, err)
			}
		}
		w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		time.Sleep(KeyRetention + time.Second)
		finds("t", "now", time.Time{}, none)
		lines()
	})
}
