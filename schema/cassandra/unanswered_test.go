package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// reads counts the reads of unanswered rows, by key. They fail while failing is set.
type reads struct {
	mu      sync.Mutex
	of      map[string]int
	failing bool
	during  func() // called in each, if it is there
}

func (r *reads) read(_ context.Context, _ statement, key rowKey) error {
	if r.during != nil {
		r.during()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[fmt.Sprint(key...)]++
	if r.failing {
		return errors.New("the other data centre does not answer")
	}
	return nil
}

func (r *reads) setFailing(failing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = failing
}

// count returns how often the row was read.
func (r *reads) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[key]
}

// TestUnansweredRowsAreReadUntilTheyAreEverywhere: once, or until it succeeds; a row that comes
// again while it is read is read again.
func TestUnansweredRowsAreReadUntilTheyAreEverywhere(t *testing.T) {
	begin := func(t *testing.T) (*unanswered, *reads) {
		r := &reads{of: make(map[string]int)}
		u := newUnanswered(r.read)
		go u.run(t.Context())
		return u, r
	}
	t.Run("once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			u, r := begin(t)
			for i := range 100 {
				u.add("leases", rowKey{fmt.Sprint("row", i%50)})
			}
			u.add("sessions", rowKey{"x"})
			u.add("jobs", nil)
			synctest.Wait()
			for i := range 50 {
				if n := r.count(fmt.Sprint("row", i)); n != 1 {
					t.Errorf("row %d was read %d times, want once", i, n)
				}
			}
			if len(r.of) != 50 || u.size() != 0 {
				t.Errorf("%d rows were read, %d are left; want 50, 0", len(r.of), u.size())
			}
		})
	})
	t.Run("until it succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			u, r := begin(t)
			r.setFailing(true)
			u.add("leases", rowKey{"x"})
			time.Sleep(10*unansweredRetryAfter + time.Second)
			if n := r.count("x"); n != 11 || u.size() != 1 {
				t.Errorf("read %d times in 51 s, %d rows are left; want 11, 1", n, u.size())
			}
			r.setFailing(false)
			time.Sleep(unansweredRetryAfter)
			synctest.Wait()
			if n := r.count("x"); n != 12 || u.size() != 0 {
				t.Errorf("it can be read: read %d times, %d rows are left; want 12, 0", n, u.size())
			}
		})
	})
	t.Run("again while it is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			u, r := begin(t)
			var once sync.Once
			r.during = func() { once.Do(func() { u.add("leases", rowKey{"x"}) }) }
			u.add("leases", rowKey{"x"})
			synctest.Wait()
			if n := r.count("x"); n != 2 || u.size() != 0 {
				t.Errorf("read %d times, %d rows are left; want 2, 0", n, u.size())
			}
		})
	})
	t.Run("no more than so many", func(t *testing.T) {
		u := newUnanswered(nil)
		for i := range maxUnanswered + 10 {
			u.add("leases", rowKey{i})
		}
		if n := u.size(); n != maxUnanswered {
			t.Errorf("%d rows are kept, want %d", n, maxUnanswered)
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

// TestUnansweredWritesAreBroughtElsewhere: whatever became of a conditional write that was not
// answered, its row is read at its serial level and at EACH_QUORUM.
func TestUnansweredWritesAreBroughtElsewhere(t *testing.T) {
	s, w, reg := openWired(t)
	s.bringUnanswered()
	now := time.Now()
	for _, c := range []struct {
		table string
		write func(key string) error
	}{
		{"leases", func(key string) error {
			_, err := s.SwapLease(t.Context(), schema.Lease{}, schema.Lease{Key: key, Fence: 7}, now.Add(time.Hour))
			return err
		}},
		{"keys", func(key string) error {
			_, _, err := s.RegisterKey(t.Context(), "acme", key, schema.KeyRecord{BodyHash: "h", Entry: schema.EntryID{1}, Expires: now}, now.Add(time.Hour))
			return err
		}},
		{"job_names", func(key string) error {
			_, _, _, err := s.RegisterName(t.Context(), "acme", key, schema.JobID{1}, now)
			return err
		}},
		{"runs", func(key string) error {
			_, err := s.CancelRun(t.Context(), schema.RunID(entryAt(t, now, 5, key, nil).ID), schema.EntryID{}, schema.Cancel{At: now}, now.Add(time.Hour))
			return err
		}},
	} {
		for _, answer := range []bool{false, true} {
			untilOK(t, "prepare", func() error {
				if err := c.write(unique(c.table)); !errors.Is(err, schema.ErrNotFound) {
					return err
				}
				return nil
			})
			for s.unanswered.size() > 0 {
				time.Sleep(time.Millisecond)
			}
			name := names[wholeRow[c.table]]
			before := counted(t, reg)[name]
			lost := &w.dropRequests
			if answer {
				lost = &w.dropAnswers
			}
			lost.Store(1)
			_ = c.write(unique(c.table)) // what it says is tested elsewhere
			for s.unanswered.size() > 0 {
				time.Sleep(time.Millisecond)
			}
			if n := counted(t, reg)[name] - before; n < 2 {
				t.Errorf("%s, answer lost %v: its row was read %v times, want twice", c.table, answer, n)
			}
		}
	}
}
