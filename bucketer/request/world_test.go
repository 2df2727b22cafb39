package request

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// world is an Engine on a store in memory.
type world struct {
	*bucketertest.World
	*engine.Engine
}

// inWorld runs f in a bubble with a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{})}
		b, err := engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w})
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatalf("Refresh = %v", err)
		}
		w.Engine = b
		f(t, w)
	})
}
