package embedded_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// TestLeasesAreLinear: 32 claimers, some of which crash or are paused, fight for one lease, and a
// fifth of the answers are lost.
func TestLeasesAreLinear(t *testing.T) {
	for range 3 {
		schematest.Linear(t, open(t, embedded.Config{}), schematest.Contention{
			Claimers: 32, Claims: 100, Odds: schematest.Odds{Delay: 0.1, Fail: 0.05, Lose: 0.2, MaxDelay: 2 * time.Millisecond},
			Crash: 0.2, Pause: 0.2, Think: time.Millisecond, Paused: 5 * time.Millisecond,
		})
	}
}
