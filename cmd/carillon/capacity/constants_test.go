package capacity

import (
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
		{runFill, "C at 7,000/s", 7000 * 0.05 / 16},
		{idleStatements, "| 1.17 a shard and second |", 1.17},
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
