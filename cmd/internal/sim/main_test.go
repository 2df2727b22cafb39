package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// gcPercent is how much the heap may grow before it is collected. A seed holds a few megabytes, so a
// collection at twice that costs more than the memory is worth: a tenth of the CPU of a seed.
const gcPercent = 800

func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(m.Run())
}
