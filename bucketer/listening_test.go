package bucketer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A job that runs after others is answered once every node knows that the tenant has such jobs, or
// knows that it knows nothing.
func TestDependentsAreKnownEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bucketertest.NewWorld(t, schema.Settings{})
		node := func() *bucketer.Bucketer {
			b, err := bucketer.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		a, b := node(), node()
		if !a.Announces("t") {
			t.Error("a node that has read nothing knows that there are none")
		}
		for _, n := range []*bucketer.Bucketer{a, b} {
			if err := n.RefreshListening(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n.Announces("t") {
				t.Error("there are dependents, and nobody noted them")
			}
		}
		began := time.Now()
		if err := a.NoteDependents(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("noted after %v, want 2 s: what other nodes have read counts for so long", took)
		}
		time.Sleep(time.Millisecond)
		// b has not read since.
		if !b.Announces("t") || !b.Announces("other") {
			t.Error("what was read 2 s ago counts")
		}
		for tenant, want := range map[string]bool{"t": true, "other": false} {
			if got, err := b.HasDependents(t.Context(), tenant); err != nil || got != want {
				t.Errorf("dependents of %s: %v, %v, want %v", tenant, got, err, want)
			}
		}
		if listens, err := b.Listens(t.Context(), "t"); err != nil || listens || b.Announces("other") {
			t.Errorf("another tenant, or another kind of listening, counts as noted: %v, %v", listens, err)
		}
		if err := a.RefreshListening(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		began = time.Now()
		if err := a.NoteDependents(t.Context(), "t"); err != nil || time.Since(began) != 0 {
			t.Errorf("noted again after %v, %v, want at once", time.Since(began), err)
		}
		w.Befall(func(_ context.Context, op string) schematest.Fault { return schematest.Fault{Fail: op == "Listening"} })
		if _, err := a.HasDependents(t.Context(), "other"); err == nil {
			t.Error("what cannot be read is taken for known")
		}
	})
}
