package cassandra

import (
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/prometheus/client_golang/prometheus"
)

// openWired returns a store behind a wire, with all statements the tests use prepared, and its
// metrics.
func openWired(t *testing.T) (*Store, *wire, *prometheus.Registry) {
	t.Helper()
	cfg := testConfig(t)
	migrateTest(t, cfg)
	w, reg := new(wire), prometheus.NewRegistry()
	cfg.dialer, cfg.Registerer = w, reg
	cfg.Timeout = 500 * time.Millisecond
	s := openWith(t, cfg)
	return s, w, reg
}

// untilOK calls f until it succeeds: on a busy machine a short time-out may strike by itself.
func untilOK(t *testing.T, what string, f func() error) {
	t.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		if t.Context().Err() != nil || !errors.Is(err, schema.ErrUnavailable) && !errors.Is(err, schema.ErrUnknown) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestLostAnswerIsSentAgain: a plain write whose answer is lost succeeds, by the same row.
func TestLostAnswerIsSentAgain(t *testing.T) {
	s, w, reg := openWired(t)
	start := somewhere()
	warm, e := entryAt(t, start, 5, unique("again"), nil), entryAt(t, start, 5, unique("again"), nil)
	untilOK(t, "PutEntries", func() error { return s.PutEntries(t.Context(), []schema.Entry{warm}) })
	before := counted(t, reg)["insert_entry"]
	w.dropAnswers.Store(1)
	untilOK(t, "PutEntries, first answer lost", func() error { return s.PutEntries(t.Context(), []schema.Entry{e}) })
	if n := counted(t, reg)["insert_entry"] - before; n < 1 {
		t.Errorf("statements: got %d, want 1 or, on a slow machine, more", n)
	}
	if w.lost.Load() != 1 {
		t.Errorf("answers lost: got %d, want 1", w.lost.Load())
	}
	untilOK(t, "EntryIDs", func() error {
		ids, err := s.EntryIDs(t.Context(), e.ID.Partition(), schema.IDRange{}, 10)
		if err == nil && len(ids) != 2 {
			t.Errorf("EntryIDs: got %d, want 2", len(ids))
		}
		return err
	})
}

// TestUnansweredWriteIsUnknown: a write that is never answered is of unknown outcome, and may have
// happened.
func TestUnansweredWriteIsUnknown(t *testing.T) {
	s, w, _ := openWired(t)
	start := somewhere()
	warm, e := entryAt(t, start, 5, unique("lost"), nil), entryAt(t, start, 5, unique("lost"), nil)
	untilOK(t, "PutEntries", func() error { return s.PutEntries(t.Context(), []schema.Entry{warm}) })
	w.dropAnswers.Store(1 << 30)
	err := s.PutEntries(t.Context(), []schema.Entry{e})
	w.dropAnswers.Store(0)
	if !errors.Is(err, schema.ErrUnknown) || errors.Is(err, schema.ErrUnavailable) {
		t.Fatalf("PutEntries without any answer: got %v, want ErrUnknown alone", err)
	}
	untilOK(t, "EntriesByID", func() error {
		got, err := s.EntriesByID(t.Context(), e.ID.Partition(), []schema.EntryID{e.ID})
		if err == nil && len(got) != 1 {
			t.Errorf("EntriesByID: got %d, want 1: the write had happened", len(got))
		}
		return err
	})
}

// TestUnansweredReadIsUnavailable: nothing may be concluded from it.
func TestUnansweredReadIsUnavailable(t *testing.T) {
	s, w, _ := openWired(t)
	id := schema.MakeEntryID(somewhere(), 1, 1)
	w.dropAnswers.Store(1 << 30)
	_, err := s.Payload(t.Context(), id)
	w.dropAnswers.Store(0)
	if !errors.Is(err, schema.ErrUnavailable) || errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Payload without any answer: got %v, want ErrUnavailable", err)
	}
}

// TestUnansweredMarkIsDecidedByReading: a conditional write is sent once, whatever happens to its
// answer.
func TestUnansweredMarkIsDecidedByReading(t *testing.T) {
	mark := schema.Cancel{At: time.Now().UTC().Truncate(time.Millisecond), By: "somebody"}
	for _, test := range []struct {
		name    string
		lose    func(w *wire)
		want    error
		stands  bool // the mark, afterwards
		asCalls int
	}{
		{"answer lost: it stands", func(w *wire) { w.dropAnswers.Store(1) }, nil, true, 1},
		{"too few replicas for its commit: it stands", func(w *wire) { w.deny.Store(1) }, nil, true, 1},
		{"request lost: it may yet be done", func(w *wire) { w.dropRequests.Store(1) }, schema.ErrUnknown, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, w, reg := openWired(t)
			start := somewhere()
			warm, e := entryAt(t, start, 5, unique("mark"), nil), entryAt(t, start, 5, unique("mark"), nil)
			untilOK(t, "PutEntries", func() error { return s.PutEntries(t.Context(), []schema.Entry{warm, e}) })
			untilOK(t, "CancelRun of another", func() error {
				_, err := s.CancelRun(t.Context(), warm.ID, schema.EntryID{}, mark, e.Expires)
				if errors.Is(err, schema.ErrConflict) {
					return nil // by an earlier try of unknown outcome
				}
				return err
			})
			before := counted(t, reg)["cancel_run"]
			test.lose(w)
			marks, err := s.CancelRun(t.Context(), e.ID, schema.EntryID{}, mark, e.Expires)
			if !errors.Is(err, test.want) {
				t.Errorf("CancelRun: got %v, want %v", err, test.want)
			}
			if n := counted(t, reg)["cancel_run"] - before; n != test.asCalls {
				t.Errorf("conditional writes: got %d, want %d", n, test.asCalls)
			}
			if w.lost.Load() != 1 {
				t.Errorf("frames lost: got %d, want 1", w.lost.Load())
			}
			if got := marks.Cancelled != nil; got != test.stands {
				t.Errorf("CancelRun's marks: cancelled %v, want %v", got, test.stands)
			}
			untilOK(t, "Marks", func() error {
				marks, err := s.Marks(t.Context(), e.ID)
				if got := marks.Cancelled != nil; err == nil && got != test.stands {
					t.Errorf("Marks: cancelled %v, want %v", got, test.stands)
				}
				return err
			})
		})
	}
}

// TestUnansweredSwapIsDecidedByReading is the same for sessions and keys.
func TestUnansweredSwapIsDecidedByReading(t *testing.T) {
	s, w, _ := openWired(t)
	expires := time.Now().Add(time.Hour)
	untilOK(t, "SwapSession of another", func() error {
		return s.SwapSession(t.Context(), schema.Session{}, schema.Session{Executor: unique("e"), ID: "1", Expires: expires})
	})
	first := schema.Session{Executor: unique("e"), ID: "a", Expires: expires}
	w.dropAnswers.Store(1)
	if err := s.SwapSession(t.Context(), schema.Session{}, first); err != nil {
		t.Errorf("SwapSession, answer lost: got %v, want nil", err)
	}
	second := first
	second.ID = "b"
	untilOK(t, "renew", func() error { // prepares the statement
		return s.SwapSession(t.Context(), first, first)
	})
	w.dropRequests.Store(1)
	if err := s.SwapSession(t.Context(), first, second); !errors.Is(err, schema.ErrUnknown) {
		t.Errorf("SwapSession, request lost: got %v, want ErrUnknown", err)
	}

	claim := schema.KeyRecord{BodyHash: "h", Entry: schema.MakeEntryID(somewhere(), 1, 1), Text: []byte("{}"), Expires: expires}
	untilOK(t, "ClaimKey of another", func() error {
		_, _, err := s.RegisterKey(t.Context(), unique("t"), "k", claim, expires)
		return err
	})
	w.dropAnswers.Store(1)
	if _, mine, err := s.RegisterKey(t.Context(), unique("t"), "k", claim, expires); err != nil || !mine {
		t.Errorf("ClaimKey, answer lost: got mine %v, %v, want true, nil", mine, err)
	}
}

// TestCutIsUnavailableAndHeals: without any connection every call says so, and after it the same
// store works again.
func TestCutIsUnavailableAndHeals(t *testing.T) {
	s, w, _ := openWired(t)
	e := entryAt(t, somewhere(), 5, unique("cut"), nil)
	w.setCut(true)
	unavailable := func(call string, f func() error) {
		t.Helper()
		var err error
		for range 3 { // the driver notices a closed connection when it uses it
			if err = f(); errors.Is(err, schema.ErrUnavailable) {
				return
			}
		}
		t.Errorf("%s: got %v, want ErrUnavailable", call, err)
	}
	unavailable("Time", func() error {
		_, err := s.Time(t.Context())
		return err
	})
	unavailable("Entries", func() error {
		_, err := s.Entries(t.Context(), e.ID.Partition(), schema.IDRange{}, 1)
		return err
	})
	unavailable("PutEntries", func() error { return s.PutEntries(t.Context(), []schema.Entry{e}) })
	unavailable("SwapSession", func() error {
		return s.SwapSession(t.Context(), schema.Session{}, schema.Session{Executor: unique("e"), ID: "1"})
	})
	w.setCut(false)
	untilOK(t, "PutEntries after it", func() error { return s.PutEntries(t.Context(), []schema.Entry{e}) })
}

// TestOpenWhereNobodyListens: it is worth trying again, and Open says so.
func TestOpenWhereNobodyListens(t *testing.T) {
	cfg := Config{Hosts: []string{"127.0.0.1"}, dialer: &wire{cut: true}}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("Open: got %v, want ErrUnavailable", err)
	}
}
