package cassandra

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/schema"
)

// TestOneOfThreeNodes: with one of three nodes frozen, and then killed, writes and reads of all
// partitions go on, and conditional writes are decided.
func TestOneOfThreeNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT: three Cassandra nodes take a minute (-short)")
	}
	c := cluster.Start(t, cluster.Spec{Cassandra: 3})
	cfg := Config{Keyspace: "carillon"}
	for _, addr := range c.CQL() {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Hosts = append(cfg.Hosts, host)
		if cfg.Port, err = strconv.Atoi(port); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Migrate(t.Context(), cfg, MigrateOptions{Replication: "3"}); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	s := openWith(t, cfg)
	if got := s.speculation.Attempts(); got != speculativeTries {
		t.Errorf("further nodes asked: got %d, want %d", got, speculativeTries)
	}
	start := somewhere()
	for i, fault := range []struct {
		name string
		do   func(ctx context.Context, name string) error
		mend func(ctx context.Context, name string) error
	}{
		{"whole", func(context.Context, string) error { return nil }, func(context.Context, string) error { return nil }},
		{"frozen", c.Freeze, c.Thaw},
		{"killed", c.Kill, c.StartMember},
	} {
		if err := fault.do(t.Context(), "cassandra-2"); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		exerciseClocks(t, s, fault.name != "whole")
		worst := exerciseNodes(t, s, fault.name, start.Add(time.Duration(i)*time.Hour))
		t.Logf("%s: worst call took %s", fault.name, worst)
		if err := fault.mend(t.Context(), "cassandra-2"); err != nil {
			t.Fatalf("mend %s: %v", fault.name, err)
		}
	}
}

// exerciseNodes writes and reads rows of many partitions at once, and returns how long the slowest
// call took.
func exerciseNodes(t *testing.T, s *Store, fault string, start time.Time) time.Duration {
	t.Helper()
	const workers, rounds = 8, 20
	tenant := unique("nodes")
	var wg sync.WaitGroup
	slowest := make([]time.Duration, workers)
	for w := range workers {
		wg.Go(func() {
			timed := func(f func() error) error {
				began := time.Now()
				err := f()
				slowest[w] = max(slowest[w], time.Since(began))
				return err
			}
			for r := range rounds {
				e := entryAt(t, start.Add(time.Duration(r)*time.Minute), schema.Shard(w), tenant, []byte("p"))
				if err := timed(func() error { return s.PutEntries(t.Context(), []schema.Entry{e}) }); err != nil {
					t.Errorf("%s: PutEntries: %v", fault, err)
				}
				if err := timed(func() error {
					got, err := s.Entries(t.Context(), e.ID.Partition(), schema.IDRange{}, 10)
					if err == nil && len(got) != 1 {
						t.Errorf("%s: Entries: got %d, want 1", fault, len(got))
					}
					return err
				}); err != nil {
					t.Errorf("%s: Entries: %v", fault, err)
				}
				if r%5 != 0 {
					continue
				}
				// The coordinator of a conditional write may be the frozen node: then reading
				// decides, or nothing does.
				_, err := s.CancelRun(t.Context(), e.ID, schema.EntryID{}, schema.Cancel{At: start, By: tenant}, e.Expires)
				if err != nil && !errors.Is(err, schema.ErrUnknown) {
					t.Errorf("%s: CancelRun: got %v, want nil or ErrUnknown", fault, err)
				}
			}
		})
	}
	wg.Wait()
	worst := time.Duration(0)
	for _, d := range slowest {
		worst = max(worst, d)
	}
	return worst
}

// exerciseClocks asks each of the three hosts for its time. With oneDown that is one that does not
// answer.
func exerciseClocks(t *testing.T, s *Store, oneDown bool) {
	t.Helper()
	hosts, silent := map[string]bool{}, 0
	for _, c := range s.Clocks() {
		hosts[c.Host] = true
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		sent := time.Now()
		at, err := c.Time(ctx)
		cancel()
		if err != nil {
			silent++
			t.Logf("clock of %s: %v", c.Host, err)
			continue
		}
		if at.Before(sent.Add(-time.Millisecond)) || at.After(time.Now()) {
			t.Errorf("clock of %s: got %v, want it between %v and now: it is this machine's", c.Host, at, sent)
		}
	}
	want := 0
	if oneDown {
		want = 1
	}
	if len(hosts) != 3 || silent != want {
		t.Errorf("Clocks: %d hosts of which %d are silent, want 3 of which %d are", len(hosts), silent, want)
	}
}
