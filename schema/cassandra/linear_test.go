package cassandra

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema/schematest"
)

// TestLeasesAreLinear: as on the embedded store, but fewer claims: of 32 that fight for one row
// most conditional writes are of unknown outcome by themselves.
func TestLeasesAreLinear(t *testing.T) {
	schematest.Linear(t, shared{openTest(t)}, schematest.Contention{
		Claimers: 32, Claims: 40, Odds: schematest.Odds{Delay: 0.05, Fail: 0.05, Lose: 0.1, MaxDelay: 20 * time.Millisecond},
		Crash: 0.2, Pause: 0.2, Think: 50 * time.Millisecond, Paused: 200 * time.Millisecond, Vague: true,
	})
}
