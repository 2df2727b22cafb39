package capacity

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Constants from the page of results must equal its figures. New results change the constants, and
// with them the tables of loadtest/CAPACITY.md.
func TestConstantsAgreeWithTheResults(t *testing.T) {
	const page = "../../../loadtest/RESULTS.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	// says fails unless the page says so under a heading, from which what has it.
	says := func(heading, want, what string) {
		t.Helper()
		_, part, _ := strings.Cut(string(text), "\n## "+heading+"\n")
		part, _, _ = strings.Cut(part, "\n## ")
		if !strings.Contains(part, want) {
			t.Errorf("%s says no more %q under %q, from which %s is: take it from what it says now", page, want, heading, what)
		}
	}
	const (
		speed, earlier = "Speed", "Speed, earlier figures"
		c7000          = "C at 7,000/s carillon 98 and 100, Cassandra 60 and 69, NATS 32"
	)
	says(speed, "C at 2,000/s carillon 182, Cassandra 172, NATS 72", "lowRates")
	says(earlier, "C at 2,000/s carillon 173 and 176, Cassandra 185 and 205, NATS 67", "lowRates")
	rows := []struct {
		key   key
		under string // a heading of the page …
		says  string // … and what it says there
		want  float64
	}{
		{dispatchCPU, earlier, c7000, 0.25 * (98 + 100) / 2},
		{executeHTTP, earlier, c7000, 0.75 * (98 + 100) / 2},
		{executeNoop, earlier, "A carillon 34, Cassandra 52, NATS 18", 0.75 * 34},
		{natsHTTP, earlier, c7000, 32},
		{natsNoop, earlier, "A carillon 34, Cassandra 52, NATS 18", 18},
		{runCassandra, earlier, c7000, (60.0 + 69) / 2},
		{runFill, earlier, "C at 7,000/s", 7000 * 0.1 / 16},
		{shardMeasured, earlier, "so 20,719/s", 20_719.0 / 16},
		{laneMeasured, earlier, "so 20,719/s", 20_719},
		{copyCassandra, "Cost of regions", "| CPU of us/cassandra | 46 µs a run of eu | 128 µs | 82 µs more |", 82},
		{copyWire, "Cost of regions", "| link eu to us | 502 bytes | 2646 bytes/s |", 502},
		{copyRest, "Cost of regions", "| link eu to us | 502 bytes | 2646 bytes/s |", 2646},
		{slotBytes, speed, "2.3 ms; 42 KiB each", 42 * 1024},
		{slotBytes, "100,000 runs in flight on one executor", "36 KiB, 11.8 KiB", 42 * 1024},
	}
	for _, row := range rows {
		name := table[row.key].Name
		says(row.under, row.says, strconv.Quote(name))
		if got := row.key.v(); math.Abs(got-row.want) > 0.02*row.want {
			t.Errorf("%q is %g, want %g to within 2 %%: %s says %q", name, got, row.want, page, row.says)
		}
	}
}

// The statements of an idle shard are those that the simulation counted, as loadtest/gate has them.
func TestIdleStatementsAreThoseOfTheGate(t *testing.T) {
	const shards, page = 4, "../../../loadtest/gate/figures.json"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var figures struct {
		Statements map[string]float64 `json:"statements"`
	}
	if err := json.Unmarshal(text, &figures); err != nil {
		t.Fatal(err)
	}
	sum := 0.
	for _, op := range []string{"Entries", "EntryIDs", "LimitsWithWaiters", "AdvanceCursor"} {
		n, ok := figures.Statements["cmd/internal/sim StatementsOfJobs idle "+op+"-a-minute"]
		if !ok {
			t.Errorf("%s has no count of %s", page, op)
		}
		sum += n
	}
	if got, want := idleStatements.v(), sum/60/shards; math.Abs(got-want) > 0.01*want {
		t.Errorf("statements of an idle shard = %g a second, want %g as %s counts", got, want, page)
	}
}
