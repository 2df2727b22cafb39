package capacity

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// Constants that come from the page of results must be what stands there: who enters new results moves the constants along, and with them
// the tables of loadtest/CAPACITY.md.
func TestConstantsAgreeWithTheResults(t *testing.T) {
	const page = "../../../loadtest/RESULTS.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const c7000 = "C at 7,000/s carillon 98 and 100, Cassandra 60 and 69, NATS 32"
	rows := []struct {
		key  key
		says string // the page
		want float64
	}{
		{dispatchCPU, c7000, 0.25 * (98 + 100) / 2},
		{executeHTTP, c7000, 0.75 * (98 + 100) / 2},
		{executeNoop, "A carillon 34, Cassandra 52, NATS 18", 0.75 * 34},
		{natsHTTP, c7000, 32},
		{natsNoop, "A carillon 34, Cassandra 52, NATS 18", 18},
		{runCassandra, c7000, (60.0 + 69) / 2},
		{runFill, "C at 7,000/s", 7000 * 0.1 / 16},
		{shardMeasured, "so 20,719/s", 20_719.0 / 16},
		{laneMeasured, "so 20,719/s", 20_719},
	}
	for _, row := range rows {
		name := table[row.key].Name
		if !strings.Contains(string(text), row.says) {
			t.Errorf("%s says no more %q, from which %q is: take it from what it says now", page, row.says, name)
		}
		if got := row.key.v(); math.Abs(got-row.want) > 0.02*row.want {
			t.Errorf("%q is %g, want %g to within 2 %%: %s says %q", name, got, row.want, page, row.says)
		}
	}
}

// What an idle shard asks of the store is what the simulation counted, as the gate of the hot paths has it.
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
	for _, op := range []string{"Entries", "EntryIDs", "WaitedFor", "AdvanceCursor"} {
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
