package cluster

import (
	"strings"
	"testing"
)

// TestMemoryOfRegions: every region counts, and the witness with its one small Cassandra.
func TestMemoryOfRegions(t *testing.T) {
	each := Spec{Cassandra: 3, NATS: 1, Nodes: 2}
	s := RegionsSpec{Regions: 2, Each: each}
	if got, want := s.Memory(), 2*each.Memory()+cassandraSmall; got != want {
		t.Errorf("memory of two regions = %d, want %d", got, want)
	}
	three := s
	three.Regions = 3
	if got, want := three.Memory()-s.Memory(), each.Memory(); got != want {
		t.Errorf("a third region takes %d, want %d", got, want)
	}
	s.Each.Profile = ProfileLoad
	if got := s.Memory(); got < 6*cassandraLarge {
		t.Errorf("memory of six large Cassandra = %d, want at least %d", got, 6*cassandraLarge)
	}
}

func TestFits(t *testing.T) {
	const info = "MemTotal:       24675132 kB\nMemFree:  1 kB\nMemAvailable:    4194304 kB\nBuffers: 1 kB\n"
	for _, row := range []struct {
		name  string
		bytes int64
		info  string
		says  string
	}{
		{"enough", 4 << 30, info, ""},
		{"too much", 4<<30 + 1, info, "4.0 GiB are free"},
		{"not told", 1 << 50, "MemTotal: 1 kB\n", ""},
		{"no number", 1 << 50, "MemAvailable: much kB\n", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := fits(row.bytes, row.info)
			if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("fits(%d) = %v, want %q", row.bytes, err, row.says)
			}
		})
	}
}
