package sim

import (
	"bytes"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// seeds returns how many seeds to run, and the first.
func seeds(t *testing.T, short int) (first uint64, n int) {
	t.Helper()
	n = short
	if v := os.Getenv("CARILLON_SIM_SEEDS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatalf("CARILLON_SIM_SEEDS: %v", err)
		}
	}
	first = 1
	if v := os.Getenv("CARILLON_SIM_SEED"); v != "" {
		var err error
		if first, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("CARILLON_SIM_SEED: %v", err)
		}
		n = 1
	}
	return first, n
}

var scenarios = []struct {
	name  string
	seeds int
	Scenario
}{
	{"nothing goes wrong", 4, Scenario{}},
	{"nodes are killed", 40, Scenario{Kills: 6}},
	{"nodes freeze", 40, Scenario{Freezes: 6}},
	{"messages are lost, doubled and late", 40, Scenario{Faults: Faults{Message: 0.03}}},
	{"the store fails, and does what it says it did not", 40, Scenario{Faults: Faults{Store: 0.01}}},
	{"the stream is deleted", 20, Scenario{StreamLosses: 4}},
	{"callees fail and are slow", 20, Scenario{Faults: Faults{Target: 0.1}}},
	{"clocks are off", 20, Scenario{Skew: time.Second, Kills: 2}},
	{"runs are cancelled and moved", 40, Scenario{Changes: true}},
	{"runs are cancelled and moved while everything fails", 60, Scenario{
		Changes: true, Kills: 3, Freezes: 2, Faults: Faults{Store: 0.01, Message: 0.01},
	}},
	{"everything at once", 80, Scenario{
		Kills: 4, Freezes: 4, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05},
	}},
}

// TestSimulation: whatever is done to the nodes, nothing acknowledged is missed, nothing starts early, nothing runs that was not
// asked for, and no run ends twice. CARILLON_SIM_SEEDS sets how many seeds each scenario gets, CARILLON_SIM_SEED runs one.
func TestSimulation(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			first, n := seeds(t, sc.seeds)
			for seed := first; seed < first+uint64(n); seed++ {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { simulate(t, seed, sc.Scenario) })
			}
		})
	}
}

func simulate(t *testing.T, seed uint64, s Scenario) {
	s.Seed = seed
	var logged bytes.Buffer
	if os.Getenv("CARILLON_SIM_SEED") != "" {
		s.Log = slog.New(slog.NewTextHandler(&logged, nil))
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := Run(t.Context(), s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if out.Report.Failed() || out.SettledLag > 4 {
			var b bytes.Buffer
			if err := out.Report.WriteText(&b); err != nil {
				t.Error(err)
			}
			t.Errorf("seed %d (again: CARILLON_SIM_SEED=%d): settled is %d buckets behind\n%s\n%s", seed, seed, out.SettledLag, &b, &logged)
		}
	})
}
