package runs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// letterOf returns the dead letter of a run of tenant t as the store has it, nil if there is none.
func (w *world) letterOf(run schema.RunID) *schema.DeadLetter {
	w.T.Helper()
	l, err := w.Counts.DeadLetter(context.Background(), "t", run)
	if errors.Is(err, schema.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.T.Fatalf("dead letter of %s = %v", run, err)
	}
	return &l
}

var ruin = schema.Record{Outcome: schema.Failed, Error: "answered 400", Status: 400, Final: true}

// A letter is a function of the record and of the entry that was started: however often, by
// whomever and beside which row the record is met, it says the same.
func TestLetterIsTheSameEachTime(t *testing.T) {
	for name, size := range map[string]int{"inline payload": 100, "large payload": 5000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				job := callTo(time.Time{})
				job.Payload = []byte(strings.Repeat("p", size))
				birth, _ := w.Row(w.submit(job))
				began := time.Now().Add(time.Second).UTC()
				first := w.Recorded(birth, 1, schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(time.Now().Add(time.Minute), birth.ID.Shard(), 42), Started: began})
				if errs := w.followUp(bucketer.Finished{Entry: birth, Attempt: first}); errs[0] != nil {
					t.Fatalf("FollowUp = %v", errs[0])
				}
				retry, ok := w.Row(first.Record.Next)
				if !ok || retry.Spec.Began != began.UnixMicro() {
					t.Errorf("the retry began %v, want %v", retry.Spec.Began, began)
				}
				time.Sleep(time.Minute)
				rec := ruin
				rec.Started = time.Now().UTC()
				last := w.Recorded(retry, 2, rec)
				var want *schema.DeadLetter
				for i := range 4 {
					beside := retry
					if i%2 == 1 {
						beside = birth
					}
					if errs := w.followUp(bucketer.Finished{Entry: beside, Attempt: last}); errs[0] != nil {
						t.Fatalf("FollowUp = %v", errs[0])
					}
					got := w.letterOf(birth.ID)
					if i == 0 {
						want = got
					}
					if got == nil || string(got.Entry.Text()) != string(want.Entry.Text()) || string(got.Entry.Payload) != string(want.Entry.Payload) ||
						got.Written != want.Written || !got.Expires.Equal(want.Expires) {
						t.Fatalf("time %d: letter %+v, want %+v", i, got, want)
					}
					time.Sleep(time.Hour)
				}
				if want.Attempts != 2 || !want.Began.Equal(began) || want.Entry.ID != retry.ID || len(want.Entry.Payload) != size || want.Last.Error != rec.Error {
					t.Errorf("letter = %+v with %d bytes, want one of two attempts since %v with %d bytes", want, len(want.Entry.Payload), began, size)
				}
			})
		})
	}
}

// Who ends a run for good writes its letter only if the run has failed, and whoever ends it
// otherwise at the same time takes the letter back.
func TestLetterOfARunThatEndsTwice(t *testing.T) {
	doubt := schema.Record{Outcome: schema.Succeeded, Doubt: true}
	cancel := func(w *world, e schema.Entry) {
		if _, err := w.Cancel(context.Background(), "t", e.ID, "me"); err != nil {
			w.T.Errorf("Cancel = %v", err)
		}
	}
	for _, c := range []struct {
		name  string
		order func(w *world, e schema.Entry)
		state schema.State
	}{
		{"failed before the success", func(w *world, e schema.Entry) {
			w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, ruin)})
			w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, doubt)})
		}, schema.StateSucceeded},
		{"failed after the success", func(w *world, e schema.Entry) {
			w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, doubt)})
			w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, ruin)})
		}, schema.StateSucceeded},
		{"both are recorded before either is followed up", func(w *world, e schema.Entry) {
			bad, good := w.Recorded(e, 1, ruin), w.Recorded(e, 1, doubt)
			w.followUp(bucketer.Finished{Entry: e, Attempt: bad}, bucketer.Finished{Entry: e, Attempt: good})
		}, schema.StateSucceeded},
		{"the failure is followed up again", func(w *world, e schema.Entry) {
			bad := w.Recorded(e, 1, ruin)
			w.followUp(bucketer.Finished{Entry: e, Attempt: bad})
			w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, doubt)})
			w.followUp(bucketer.Finished{Entry: e, Attempt: bad})
		}, schema.StateSucceeded},
		{"cancelled before", func(w *world, e schema.Entry) {
			cancel(w, e)
			w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, ruin)})
		}, schema.StateCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				e, _ := w.Row(w.submit(callTo(time.Time{})))
				c.order(w, e)
				if got := w.mustRun(e.ID).State; got != c.state {
					t.Errorf("state = %s, want %s", got, c.state)
				}
				if l := w.letterOf(e.ID); l != nil && (l.Resolution == nil || l.Resolution.Kind != schema.ResolvedSuperseded) {
					t.Errorf("letter = %+v, want none, or one that was superseded", l)
				}
			})
		})
	}
}

// A cancel whose mark came to stand after the letter's writer had looked for one takes the letter
// back.
func TestCancelBesideAFailureTakesTheLetterBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		e, _ := w.Row(w.submit(callTo(time.Time{})))
		ended := false
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "CancelRun" && !ended { // the run was read before, and ends now
				ended = true
				a := w.Recorded(e, 1, ruin)
				w.FollowUp(context.Background(), []bucketer.Finished{{Entry: e, Attempt: a}}, func(_ int, err error) {
					if err != nil {
						t.Errorf("FollowUp = %v", err)
					}
				})
				if w.letterOf(e.ID) == nil {
					t.Error("no letter before the mark")
				}
			}
			return schematest.Fault{}
		})
		run, err := w.Cancel(t.Context(), "t", e.ID, "me")
		if err != nil || run.State != schema.StateCancelled || !ended {
			t.Fatalf("Cancel = %s, %v; want cancelled", run.State, err)
		}
		if l := w.letterOf(e.ID); l == nil || l.Resolution == nil || l.Resolution.Kind != schema.ResolvedSuperseded {
			t.Errorf("letter = %+v, want one that was superseded", l)
		}
	})
}

// What follows is answered only once the letter is held.
func TestFollowUpFailsWithoutTheLetter(t *testing.T) {
	for _, op := range []string{"PutDeadLetters", "Attempts", "EntriesByID"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				e, _ := w.Row(w.submit(callTo(time.Time{})))
				a := w.Recorded(e, 1, ruin)
				w.BefallFirst(1, op, schematest.Fault{Fail: true})
				if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: a}); !errors.Is(errs[0], schema.ErrUnavailable) || w.letterOf(e.ID) != nil {
					t.Errorf("FollowUp = %v, want ErrUnavailable and no letter", errs[0])
				}
				if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: a}); errs[0] != nil || w.letterOf(e.ID) == nil {
					t.Errorf("FollowUp again = %v, want the letter", errs[0])
				}
			})
		})
	}
}

// A hundred runs that end at once cost some statements, and a success without doubt none.
func TestLettersAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 1})
		var finished []bucketer.Finished
		for i := range 100 {
			e, _ := w.Row(w.submit(callTo(time.Time{})))
			rec := ruin
			if i%2 == 1 {
				rec = schema.Record{Outcome: schema.Succeeded}
			}
			finished = append(finished, bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, rec)})
		}
		w.Counts.Reset()
		for i, err := range w.followUp(finished...) {
			if err != nil {
				t.Errorf("record %d = %v", i, err)
			}
		}
		got := w.Counts.Tallies()
		if got["PutDeadLetters"].Rows != 50 || got["PutDeadLetters"].Calls != 1 || got["Attempts"].Rows != 50 || got["EntriesByID"].Rows != 50 || got["NoteDeadLetters"].Calls != 1 || len(got) != 4 {
			t.Errorf("50 letters and 50 successes took %v, want one write of 50 rows, a note of their day, and two reads of 50 runs", got)
		}
	})
}

// keepLetters has the world's Bucketer keep dead letters for that long.
func (w *world) keepLetters(retention time.Duration) {
	w.T.Helper()
	w.open(bucketer.Config{Halted: w.Stopped.Load, DeadLetterRetention: retention})
}

// A letter is kept for as long as is configured: it can be replayed until then, to one run, and is
// gone after it, though whoever repeats what follows from the record writes it again.
func TestLettersAreKeptForAsLongAsIsConfigured(t *testing.T) {
	const day = 24 * time.Hour
	for name, retention := range map[string]time.Duration{"two days": 2 * day, "longer than the default": 50 * day} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				w.keepLetters(retention)
				e, _ := w.Row(w.submit(callTo(time.Time{})))
				a := w.Recorded(e, 1, ruin)
				left := w.dead(callTo(time.Time{}))
				w.followUp(bucketer.Finished{Entry: e, Attempt: a})
				l, err := w.DeadLetter(t.Context(), "t", e.ID)
				if want := a.Record.Finished.Add(retention).Truncate(time.Millisecond); err != nil || !l.Expires.Equal(want) {
					t.Fatalf("DeadLetter = one until %v, %v; want %v after its end: %v", l.Expires, err, retention, want)
				}
				all := DeadLetterQuery{Tenant: "t", From: e.ID.Time().Add(-time.Hour), To: e.ID.Time().Add(time.Hour)}

				time.Sleep(retention - time.Hour)
				if got := w.listed(all, 10); len(got) != 2 {
					t.Errorf("in its last hour %d letters are listed, want both", len(got))
				}
				first, err := w.Replay(t.Context(), "t", e.ID, "me")
				if err != nil || first.Existing {
					t.Fatalf("Replay in its last hour = %+v, %v; want a new run", first, err)
				}
				again, err := w.Replay(t.Context(), "t", e.ID, "me")
				if err != nil || !again.Existing || again.Run != first.Run {
					t.Errorf("Replay again = %+v, %v; want %s", again, err, first.Run)
				}
				if run := w.mustRun(first.Run); run.Entry.Spec.Origin != e.ID {
					t.Errorf("the replay is of origin %s, want %s", run.Entry.Spec.Origin, e.ID)
				}

				time.Sleep(time.Hour + time.Second)
				w.followUp(bucketer.Finished{Entry: e, Attempt: a})
				for _, run := range []schema.RunID{e.ID, left} {
					if l, err := w.DeadLetter(t.Context(), "t", run); !errors.Is(err, schema.ErrNotFound) {
						t.Errorf("DeadLetter after its time = one until %v, %v; want ErrNotFound", l.Expires, err)
					}
					if r, err := w.Replay(t.Context(), "t", run, "me"); !errors.Is(err, schema.ErrNotFound) {
						t.Errorf("Replay after its time = %+v, %v; want ErrNotFound", r, err)
					}
				}
				if got := w.listed(all, 10); len(got) != 0 {
					t.Errorf("after their time %d letters are listed, want none", len(got))
				}
			})
		})
	}
}
