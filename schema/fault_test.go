package schema

import (
	"errors"
	"testing"
	"time"
)

// A run whose last attempt cannot be understood is over and has failed; what others have written of
// it counts before that.
func TestUnreadableAttempts(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	run := MakeEntryID(now, 1, 1)
	first, err := NewEntry(run, Spec{Tenant: "t"}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	retry, err := NewEntry(MakeEntryID(now.Add(time.Minute), 1, 2), Spec{Tenant: "t", Kind: KindRetry, Of: run, Attempt: 2}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	row := func(number int, record, session string) Attempt {
		bytes := func(text string) []byte {
			if text == "" {
				return nil
			}
			return []byte(text)
		}
		return LoadAttempt(run, number, Fence(number), bytes(record), bytes(session), 1)
	}
	const session = `{"executor":"e","session":"s","started":"2026-11-23T00:00:00Z"}`
	bad := row(1, `{"outcome":5}`, session)
	for _, test := range []struct {
		name     string
		marks    Marks
		attempts []Attempt
		live     bool
		state    State
		over     bool // the run's first entry …
		later    bool // … and that of its second attempt
		fault    bool
	}{
		{"alone", Marks{}, []Attempt{bad}, false, StateFailed, true, true, true},
		{"of an outcome that is not known", Marks{}, []Attempt{row(1, `{"outcome":"postponed"}`, "")}, false, StateFailed, true, true, true},
		{"its session", Marks{}, []Attempt{row(1, "", `{`)}, false, StateFailed, true, true, true},
		{"its session, beside a record", Marks{}, []Attempt{row(1, `{"outcome":"succeeded"}`, `{`)}, false, StateSucceeded, true, true, false},
		{"why nothing started", Marks{}, []Attempt{row(0, `{`, "")}, false, StateFailed, true, true, true},
		{"and the run was cancelled", Marks{Cancelled: &Cancel{}}, []Attempt{bad}, false, StateCancelled, true, true, true},
		{"and another of its number tells", Marks{}, []Attempt{bad, row(1, `{"outcome":"succeeded"}`, "")}, false, StateSucceeded, true, true, false},
		{"and the next one runs", Marks{}, []Attempt{bad, row(2, "", session)}, true, StateRunning, false, false, false},
		{"and the next one failed for good", Marks{}, []Attempt{bad, row(2, `{"outcome":"failed","final":true}`, "")}, false, StateFailed, true, true, false},
		{"and one before it failed", Marks{}, []Attempt{row(1, `{"outcome":"failed"}`, ""), row(2, `{`, "")}, false, StateFailed, true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			live := func(SessionRef) bool { return test.live }
			if got := Fold(test.marks, test.attempts, live); got != test.state {
				t.Errorf("Fold = %s, want %s", got, test.state)
			}
			if got := Judge(&first, test.marks, test.attempts, live); got.Over != test.over && !got.Live || got.Repeat != nil && test.fault {
				t.Errorf("Judge of the run = %+v, want over %v and nothing to repeat", got, test.over)
			}
			if got := Judge(&retry, test.marks, test.attempts, live); got.Over != test.later && !got.Live {
				t.Errorf("Judge of the second attempt = %+v, want over %v", got, test.later)
			}
			if err := Unreadable(test.attempts); errors.Is(err, ErrNotUnderstood) != test.fault {
				t.Errorf("Unreadable = %v, want a fault: %v", err, test.fault)
			}
		})
	}
}

// What a session remembers and cannot be understood makes claims stand, and nobody take its place,
// until it is renewed or over.
func TestUnclearSession(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	s := Session{Executor: "e", ID: "is", Expires: now.Add(time.Second), Unclear: true}
	if !s.Supports(SessionRef{Executor: "e", ID: "was", Guarded: true}, now) || s.Supports(SessionRef{Executor: "e", ID: "was"}, now) {
		t.Error("Supports: want a claim of an earlier life to stand, and nothing else of it")
	}
	next := Session{Executor: "e", ID: "next"}
	if _, err := next.After(s, now); !errors.Is(err, ErrRestarts) {
		t.Errorf("After = %v, want ErrRestarts", err)
	}
	if _, err := next.After(s, now.Add(time.Hour)); err != nil {
		t.Errorf("After, once it is over = %v", err)
	}
	if s.Over(now) || !s.Over(now.Add(time.Hour)) {
		t.Error("Over: want it to follow its own expiry")
	}
}
