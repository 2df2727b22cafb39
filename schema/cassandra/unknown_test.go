package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/document"
	"github.com/gocql/gocql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// reads counts the reads of rows, by key.
type reads struct {
	mu     sync.Mutex
	of     map[string]int
	err    map[string]error // with which they fail
	during func()           // called in each, if it is there
}

func (r *reads) read(_ context.Context, _ statement, key rowKey) error {
	if r.during != nil {
		r.during()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := fmt.Sprint(key...)
	r.of[name]++
	return r.err[name]
}

// fail has the reads of a row fail from now on; nil: they succeed.
func (r *reads) fail(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = map[string]error{key: err}
}

// count returns how often the row was read.
func (r *reads) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[key]
}

// TestUnknownWritesAreReadUntilTheyAreEverywhere: each row once, after a while, or until it
// succeeds; one that comes again while it is read is read again.
func TestUnknownWritesAreReadUntilTheyAreEverywhere(t *testing.T) {
	begin := func(t *testing.T) (*unknownWrites, *reads, func() int) {
		r := &reads{of: make(map[string]int)}
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"})
		u := newUnknownWrites(r.read, gauge, slog.New(slog.DiscardHandler))
		go u.run(t.Context())
		return u, r, func() int {
			if n := int(testutil.ToFloat64(gauge)); n != u.size() {
				t.Errorf("the gauge says %d, and %d rows are left", n, u.size())
			}
			return u.size()
		}
	}
	within := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	within("once", func(t *testing.T) {
		u, r, left := begin(t)
		for i := range 100 {
			u.add("leases", rowKey{fmt.Sprint("row", i%50)})
		}
		u.add("sessions", rowKey{"x"})
		u.add("jobs", nil)
		(*unknownWrites)(nil).add("jobs", rowKey{"x"})
		time.Sleep(unknownSettles - time.Second)
		if n := len(r.of); n != 0 || left() != 50 {
			t.Errorf("%d rows were read while a node may work on them, %d are left; want 0, 50", n, left())
		}
		time.Sleep(2 * time.Second)
		for i := range 50 {
			if n := r.count(fmt.Sprint("row", i)); n != 1 {
				t.Errorf("row %d was read %d times, want once", i, n)
			}
		}
		if n := len(r.of); n != 50 || left() != 0 {
			t.Errorf("%d rows were read, %d are left; want 50, 0", n, left())
		}
	})
	within("until it succeeds, beside one that does at once", func(t *testing.T) {
		u, r, left := begin(t)
		r.fail("x", schema.ErrUnavailable)
		u.add("leases", rowKey{"x"})
		u.add("leases", rowKey{"y"})
		time.Sleep(unknownSettles + 10*unknownRetryAfter + time.Second)
		if x, y := r.count("x"), r.count("y"); x != 11 || y != 1 || left() != 1 {
			t.Errorf("read %d and %d times, %d rows are left; want 11, 1, 1", x, y, left())
		}
		r.fail("x", nil)
		time.Sleep(unknownRetryAfter)
		if n := r.count("x"); n != 12 || left() != 0 {
			t.Errorf("it can be read: read %d times, %d rows are left; want 12, 0", n, left())
		}
	})
	within("one that can never be read is given up", func(t *testing.T) {
		u, r, left := begin(t)
		r.fail("x", errors.New("a fault of ours"))
		u.add("leases", rowKey{"x"})
		time.Sleep(time.Minute)
		if n := r.count("x"); n != 1 || left() != 0 {
			t.Errorf("read %d times, %d rows are left; want 1, 0", n, left())
		}
	})
	within("again while it is read", func(t *testing.T) {
		u, r, left := begin(t)
		var once sync.Once
		r.during = func() { once.Do(func() { u.add("leases", rowKey{"x"}) }) }
		u.add("leases", rowKey{"x"})
		time.Sleep(3 * unknownSettles)
		if n := r.count("x"); n != 2 || left() != 0 {
			t.Errorf("read %d times, %d rows are left; want 2, 0", n, left())
		}
	})
	within("no more than so many", func(t *testing.T) {
		u := newUnknownWrites(nil, prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}), slog.New(slog.DiscardHandler))
		for i := range maxUnknown + 10 {
			u.add("leases", rowKey{i})
		}
		if n := u.size(); n != maxUnknown {
			t.Errorf("%d rows are kept, want %d", n, maxUnknown)
		}
	})
	within("at the end, once more", func(t *testing.T) {
		r := &reads{of: make(map[string]int)}
		u := newUnknownWrites(r.read, prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}), slog.New(slog.DiscardHandler))
		r.fail("x", schema.ErrUnavailable)
		for i := range 40 {
			u.add("leases", rowKey{i})
		}
		u.add("leases", rowKey{"x"})
		u.close()
		if n := r.count("x"); n != 1 || len(r.of) != 41 || u.size() != 1 {
			t.Errorf("x was read %d times, %d rows in all, %d are left; want 1, 41, 1", n, len(r.of), u.size())
		}
	})
}

// TestWholeRows: of each table that is written at LOCAL_SERIAL the row is read with all its
// columns, but for the sessions of executors.
func TestWholeRows(t *testing.T) {
	for table, level := range serialLevels {
		st, ok := wholeRow[table]
		if want := level == gocql.LocalSerial && table != "sessions"; ok != want {
			t.Errorf("%s: there is a statement %v, want %v", table, ok, want)
		}
		if ok && st.table() != table {
			t.Errorf("%s: the statement reads %s", table, st.table())
		}
	}
	s := openTest(t)
	meta, err := s.session.KeyspaceMetadata(testKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	for table, st := range wholeRow {
		list, _, _ := strings.Cut(strings.TrimPrefix(string(st), "SELECT "), " FROM ")
		read := strings.Split(list, ", ")
		for name, column := range meta.Tables[table].Columns {
			if key := column.Kind == gocql.ColumnPartitionKey || column.Kind == gocql.ColumnClusteringKey; !key && !slices.Contains(read, name) {
				t.Errorf("%s: column %s is not read", table, name)
			}
		}
	}
}

// TestUnknownWritesAreBroughtElsewhere: whatever became of a conditional write whose outcome is
// unknown, its row is read at its serial level and at EACH_QUORUM.
func TestUnknownWritesAreBroughtElsewhere(t *testing.T) {
	s, w, reg := openWired(t)
	s.unknown = newUnknownWrites(s.readUnknown, s.metrics.unknown, slog.New(slog.DiscardHandler))
	now := time.Now()
	writes := map[string]func(key string) error{
		"leases": func(key string) error {
			_, err := s.SwapLease(t.Context(), schema.Lease{}, schema.Lease{Key: key, Fence: 7}, now.Add(time.Hour))
			return err
		},
		"decisions": func(key string) error {
			_, err := s.Decide(t.Context(), key, "x", now.Add(time.Hour))
			return err
		},
		"keys": func(key string) error {
			_, _, err := s.RegisterKey(t.Context(), "acme", key, schema.KeyRecord{BodyHash: "h", Entry: schema.EntryID{1}, Expires: now}, now.Add(time.Hour))
			return err
		},
		"job_names": func(key string) error {
			_, _, _, err := s.RegisterName(t.Context(), "acme", key, schema.JobID{1}, now)
			return err
		},
		"jobs": func(string) error { return s.SwapJob(t.Context(), 0, jobAt(somewhere(), 5, 1)) },
		"runs": func(key string) error {
			_, err := s.CancelRun(t.Context(), entryAt(t, now, 5, key, nil).ID, schema.EntryID{}, schema.Cancel{At: now}, now.Add(time.Hour))
			return err
		},
		"api_key_names": func(key string) error {
			return s.CreateAPIKey(t.Context(), schema.APIKey{Tenant: "acme", Name: key, Hash: schema.KeyHash{1}, CreatedAt: now})
		},
		"signing_keys": func(key string) error {
			return documents{s.core}.SwapDocument(t.Context(), 0, document.Document{Kind: document.SigningKeys, Name: key, Revision: 1, Text: []byte("{}")})
		},
		"secrets": func(key string) error {
			return documents{s.core}.SwapDocument(t.Context(), 0, document.Document{Kind: document.Secret, Scope: "acme", Name: key, Revision: 1, Text: []byte("{}")})
		},
		"notification_groups": func(key string) error {
			return documents{s.core}.SwapDocument(t.Context(), 0, document.Document{Kind: document.NotificationGroup, Scope: "acme", Name: key, Revision: 1, Text: []byte("{}")})
		},
	}
	for table := range wholeRow {
		if writes[table] == nil {
			t.Errorf("%s: nothing is written", table)
		}
	}
	for name, write := range writes {
		for what, lost := range map[string]*atomic.Int64{"its answer is lost": &w.dropAnswers, "it is lost itself": &w.dropRequests} {
			untilOK(t, "prepare "+name, func() error {
				if err := write(unique(name)); !errors.Is(err, schema.ErrNotFound) {
					return err
				}
				return nil
			})
			s.unknown.close() // what was prepared may have been slow
			table := name
			if name == "decisions" {
				table = "leases"
			}
			lost.Store(1)
			_ = write(unique(name)) // what it says is tested elsewhere
			if n := s.unknown.size(); n != 1 {
				t.Errorf("%s, %s: %d rows are to be read, want 1", name, what, n)
			}
			of := names[wholeRow[table]]
			before := counted(t, reg)[of]
			untilOK(t, "read "+name, func() error {
				if s.unknown.close(); s.unknown.size() > 0 {
					return schema.ErrUnavailable
				}
				return nil
			})
			if n := counted(t, reg)[of] - before; n < 2 {
				t.Errorf("%s, %s: its row was read %d times, want twice", name, what, n)
			}
		}
	}
}

// TestUnknownWritesEndWithTheStore: a store of one of several regions reads them until it is
// closed.
func TestUnknownWritesEndWithTheStore(t *testing.T) {
	s := openTest(t)
	s.bringUnknown()
	s.unknown.add("leases", rowKey{"x"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := s.unknown.size(); n != 0 {
		t.Errorf("%d rows are left after Close, want 0", n)
	}
}
