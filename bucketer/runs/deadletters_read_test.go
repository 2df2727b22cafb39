package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// dead submits a job, has its run fail for good with what follows, and returns its id.
func (w *world) dead(job bucketer.Job) schema.RunID {
	w.T.Helper()
	e, _ := w.Row(w.submit(job))
	if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, ruin)}); errs[0] != nil {
		w.T.Fatalf("FollowUp = %v", errs[0])
	}
	return e.ID
}

// listed returns all letters of q, in pages of limit.
func (w *world) listed(q DeadLetterQuery, limit int) (runs []schema.RunID) {
	w.T.Helper()
	for pos := (*DeadLetterPosition)(nil); ; {
		page, next, err := w.DeadLetters(context.Background(), q, pos, limit)
		if err != nil {
			w.T.Fatalf("DeadLetters = %v", err)
		}
		for i := range page {
			runs = append(runs, page[i].Run)
		}
		if len(page) > limit || len(runs) > 1000 {
			w.T.Fatalf("a page of %d, want at most %d", len(page), limit)
		}
		if next == nil {
			return runs
		}
		pos = next
	}
}

func TestDeadLettersAreListed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		began := time.Now()
		if err := w.Counts.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "mail", Work: *callTo(time.Time{}).Work, UpdatedAt: began}); err != nil {
			t.Fatal(err)
		}
		var all, mails []schema.RunID
		for i := range 30 {
			job := callTo(time.Time{})
			if i%3 == 0 {
				job.Task, job.Work = "mail", nil
			}
			id := w.dead(job)
			all = append(all, id)
			if i%3 == 0 {
				mails = append(mails, id)
			}
			time.Sleep(5 * time.Hour) // over several days
		}
		foreign := callTo(time.Time{})
		foreign.Tenant = "other"
		w.dead(foreign)
		slices.Reverse(all)
		slices.Reverse(mails)
		whole := DeadLetterQuery{Tenant: "t", From: began.Add(-24 * time.Hour), To: time.Now().Add(time.Hour)}
		for _, limit := range []int{1, 7, 500} {
			if got := w.listed(whole, limit); !slices.Equal(got, all) {
				t.Errorf("all, %d at a time = %d, want %d, the latest first", limit, len(got), len(all))
			}
			mail := whole
			mail.Task = "mail"
			if got := w.listed(mail, limit); !slices.Equal(got, mails) {
				t.Errorf("of a task, %d at a time = %d, want %d", limit, len(got), len(mails))
			}
			some := whole
			some.From, some.To = all[20].Time(), all[10].Time()
			if got := w.listed(some, limit); !slices.Equal(got, all[11:21]) {
				t.Errorf("of a window, %d at a time = %d, want the ten from its begin to before its end", limit, len(got))
			}
		}
		if _, err := w.Discard(t.Context(), "t", all[3], "me"); err != nil {
			t.Fatal(err)
		}
		replay, err := w.Replay(t.Context(), "t", all[7], "me")
		if err != nil {
			t.Fatal(err)
		}
		left := slices.DeleteFunc(slices.Clone(all), func(id schema.RunID) bool { return id == all[3] || id == all[7] })
		if got := w.listed(whole, 7); !slices.Equal(got, left) {
			t.Errorf("after one was discarded and one replayed = %d, want %d", len(got), len(left))
		}
		got, err := w.Resolutions(t.Context(), "t", append(all, schema.RunID{}))
		if err != nil || len(got) != len(all) {
			t.Fatalf("Resolutions = %v, %v; want one of each run", got, err)
		}
		for i, id := range all {
			r, want := got[id], map[int]schema.ResolutionKind{3: schema.ResolvedDiscarded, 7: schema.ResolvedReplayed}[i]
			if (r == nil) != (want == "") || r != nil && (r.Kind != want || r.Run != map[int]schema.RunID{7: replay.Run}[i]) {
				t.Errorf("the resolution of letter %d is %+v, want %q", i, r, want)
			}
		}
	})
}

// Letters are selected by what their errors have in common, and those that were replayed apart from
// those that wait. A replay has the name of the job that it came from.
func TestDeadLettersByErrorAndReplay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		began := time.Now()
		var expired, other []schema.RunID
		for i := range 12 {
			job := callTo(time.Time{})
			job.JobName = "charge"
			e, _ := w.Row(w.submit(job))
			rec := ruin
			rec.Error = fmt.Sprintf("card %d is expired", 4000+i)
			if i%3 == 0 {
				rec.Error = fmt.Sprintf("no customer %d", 4000+i)
			}
			if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, rec)}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			if i%3 == 0 {
				other = append(other, e.ID)
			} else {
				expired = append(expired, e.ID)
			}
			time.Sleep(time.Second)
		}
		slices.Reverse(expired)
		q := DeadLetterQuery{Tenant: "t", From: began.Add(-time.Hour), To: time.Now().Add(time.Hour), Pattern: "card <n> is expired"}
		if got := w.listed(q, 3); !slices.Equal(got, expired) {
			t.Errorf("letters of %q = %v, want %v", q.Pattern, got, expired)
		}
		replays := make(map[schema.RunID]schema.RunID)
		for _, id := range append(expired[:2:2], other[0]) {
			r, err := w.Replay(t.Context(), "t", id, "me")
			if err != nil {
				t.Fatal(err)
			}
			replays[id] = r.Run
		}
		e, _ := w.Row(replays[expired[0]])
		w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
		if e.Spec.JobName != "charge" || !e.Spec.Job.IsZero() {
			t.Errorf("the replay is called %q, of job %s; want the name of the job alone", e.Spec.JobName, e.Spec.Job)
		}
		replayed := q
		replayed.Replayed = true
		if got := w.listed(replayed, 1); !slices.Equal(got, expired[:2]) {
			t.Errorf("letters of %q that were replayed = %v, want %v", q.Pattern, got, expired[:2])
		}
		if got := w.listed(q, 3); !slices.Equal(got, expired[2:]) {
			t.Errorf("letters of %q that wait after two were replayed = %v, want %v", q.Pattern, got, expired[2:])
		}
		gone := schema.MakeEntryID(began, 1, 7)
		states, err := w.States(t.Context(), []schema.RunID{replays[expired[0]], replays[expired[1]], gone})
		if err != nil || len(states) != 2 || states[replays[expired[0]]] != schema.StateSucceeded || states[replays[expired[1]]] != schema.StatePending {
			t.Errorf("States = %v, %v; want one that succeeded and one that is pending", states, err)
		}
	})
}

// Letters are selected by a text of the error that is shown, the body of an answer too.
func TestDeadLettersByATextOfTheirError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		began := time.Now()
		answered := schema.Record{Outcome: schema.Failed, Status: 402, Error: "answered 402 Payment Required", Final: true}
		bodies := []string{`{"error": "Card   declined"}`, `{"error": "database timeout"}`, ""}
		var all []schema.RunID
		for i := range 9 {
			e, _ := w.Row(w.submit(callTo(time.Time{})))
			rec := answered
			rec.Output = bodies[i%3]
			if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, rec)}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			all = append(all, e.ID)
			time.Sleep(time.Second)
		}
		slices.Reverse(all)
		for text, want := range map[string][]schema.RunID{
			"card DECLINED":          {all[2], all[5], all[8]},
			"Required: {":            {all[1], all[2], all[4], all[5], all[7], all[8]},
			"database timeout":       {all[1], all[4], all[7]},
			"payment required":       all,
			"card declined, retired": nil,
			".*":                     nil,
		} {
			q := DeadLetterQuery{Tenant: "t", From: began.Add(-time.Hour), To: time.Now().Add(time.Hour), Error: text}
			if got := w.listed(q, 2); !slices.Equal(got, want) {
				t.Errorf("letters with %q = %v, want %v", text, got, want)
			}
			q.Pattern = "answered 500"
			if got := w.listed(q, 2); len(got) != 0 {
				t.Errorf("letters with %q of another pattern = %v, want none", text, got)
			}
		}
	})
}

func TestDeadLetterTellsAllAttempts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		e, _ := w.Row(w.submit(callTo(time.Time{})))
		first := w.Recorded(e, 1, schema.Record{
			Outcome: schema.TimedOut, Next: schema.MakeEntryID(time.Now().Add(time.Second), e.ID.Shard(), 7), Error: strings.Repeat("ä", 1000), Output: "long",
		})
		w.followUp(bucketer.Finished{Entry: e, Attempt: first})
		retry, _ := w.Row(first.Record.Next)
		w.followUp(bucketer.Finished{Entry: retry, Attempt: w.Recorded(retry, 2, ruin)})
		l, err := w.DeadLetter(t.Context(), "t", e.ID)
		if err != nil || len(l.Attempted) != 2 || l.Attempted[0].Record.Outcome != schema.TimedOut || l.Attempts != 2 {
			t.Errorf("DeadLetter = %+v, %v; want one with both attempts", l, err)
		}
		if _, err := w.DeadLetter(t.Context(), "other", e.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("DeadLetter for another tenant = %v, want ErrNotFound", err)
		}
		time.Sleep(20 * 24 * time.Hour) // its rows have left
		l, err = w.DeadLetter(t.Context(), "t", e.ID)
		if err != nil || l.Attempts != 2 || l.Last.Error != ruin.Error || string(l.Entry.Payload) != `{"n":1}` {
			t.Errorf("DeadLetter after 20 days = %+v, %v; want what the last attempt said, and the payload", l, err)
		}
		if n := len(l.Attempted); n != 2 {
			t.Fatalf("it tells of %d attempts after 20 days, want both", n)
		}
		if a, z := l.Attempted[0], l.Attempted[1]; a.Number != 1 || a.Record.Outcome != schema.TimedOut || a.Record.Error != strings.Repeat("ä", 256) || a.Record.Output != "" ||
			!a.Record.Finished.Equal(first.Record.Finished) || z.Number != 2 || z.Record.Error != ruin.Error {
			t.Errorf("after 20 days its attempts are %+v and %+v, want the first in short, and the last", a.Record, z.Record)
		}
		r, err := w.Replay(t.Context(), "t", e.ID, "me")
		if err != nil {
			t.Fatalf("Replay after 20 days = %v", err)
		}
		run := w.mustRun(r.Run)
		if s := run.Entry.Spec; s.Origin != e.ID || s.Trigger != schema.TriggerRetry || s.Work == nil || string(run.Entry.Payload) != `{"n":1}` {
			t.Errorf("the replay is %s with %s, want the same work and payload, of that origin", run.Entry.Text(), run.Entry.Payload)
		}
		time.Sleep(11 * 24 * time.Hour)
		if _, err := w.DeadLetter(t.Context(), "t", e.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("DeadLetter after 31 days = %v, want ErrNotFound", err)
		}
	})
}

// However many replay a letter at once, and however they fail on the way, it becomes one run.
func TestReplaysAreOneRun(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			id := w.dead(callTo(time.Time{}))
			var mu sync.Mutex
			runs, made := make(map[schema.RunID]bool), 0
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					r, err := w.Replay(context.Background(), "t", id, "me")
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("Replay = %v", err)
					}
					if runs[r.Run] = true; !r.Existing {
						made++
					}
				})
			}
			wg.Wait()
			if k := bucketertest.Kinds(w.Entries(time.Hour)); len(runs) != 1 || made != 1 || k[schema.KindRun] != 2 {
				t.Errorf("10 replays made %d runs, %d of them new, and %v; want one beside the old", len(runs), made, k)
			}
		})
	})
	for _, op := range []string{"PutEntries", "PutResolution"} {
		t.Run("after a crash at "+op, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.dead(callTo(time.Time{}))
				w.BefallFirst(1, op, schematest.Fault{Fail: true})
				if _, err := w.Replay(t.Context(), "t", id, "me"); !errors.Is(err, schema.ErrUnavailable) {
					t.Errorf("Replay = %v, want ErrUnavailable", err)
				}
				time.Sleep(4 * 24 * time.Hour) // longer than keys of callers are kept
				r, err := w.Replay(t.Context(), "t", id, "me")
				if err != nil || !r.Existing {
					t.Errorf("Replay again = %+v, %v; want the run of the first", r, err)
				}
				if k := bucketertest.Kinds(w.Entries(5 * 24 * time.Hour)); k[schema.KindRun] != 2 {
					t.Errorf("kinds = %v, want the run and one replay", k)
				}
				l, err := w.DeadLetter(t.Context(), "t", id)
				if err != nil || l.Resolution == nil || l.Resolution.Run != r.Run || l.Resolution.By != "me" {
					t.Errorf("DeadLetter = %+v, %v; want it replayed as %s", l.Resolution, err, r.Run)
				}
			})
		})
	}
}

func TestDiscardedDoesNotRise(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		e, _ := w.Row(w.submit(callTo(time.Time{})))
		a := w.Recorded(e, 1, ruin)
		w.followUp(bucketer.Finished{Entry: e, Attempt: a})
		for i, want := range []bool{true, false} {
			if changed, err := w.Discard(t.Context(), "t", e.ID, "me"); err != nil || changed != want {
				t.Errorf("Discard %d = %v, %v; want %v", i, changed, err, want)
			}
		}
		later := w.Recorded(e, 1, ruin) // another execution failed as well
		w.followUp(bucketer.Finished{Entry: e, Attempt: a}, bucketer.Finished{Entry: e, Attempt: later})
		if _, err := w.DeadLetter(t.Context(), "t", e.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("DeadLetter = %v, want ErrNotFound", err)
		}
		if _, err := w.Replay(t.Context(), "t", e.ID, "me"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Replay = %v, want ErrNotFound", err)
		}
		if got := w.listed(DeadLetterQuery{Tenant: "t", From: e.ID.Time().Add(-time.Hour), To: time.Now().Add(time.Hour)}, 10); len(got) != 0 {
			t.Errorf("listed = %v, want none", got)
		}
		if _, err := w.Discard(t.Context(), "t", w.submit(callTo(time.Time{})), "me"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Discard of a run that has not failed = %v, want ErrNotFound", err)
		}
	})
}

// A letter whose run has succeeded after all, though nobody took it back, is found out by whoever
// reads it.
func TestLetterOfARunThatHasNotFailedIsNone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		e, _ := w.Row(w.dead(callTo(time.Time{})))
		// nothing follows: its executor died
		w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
		if _, err := w.Replay(t.Context(), "t", e.ID, "me"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Replay = %v, want ErrNotFound", err)
		}
		if l := w.letterOf(e.ID); l == nil || l.Resolution == nil || l.Resolution.Kind != schema.ResolvedSuperseded {
			t.Errorf("letter = %+v, want one that was superseded", l)
		}
	})
}

func TestReplayWithoutItsPayload(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := callTo(time.Time{})
		job.Payload = slices.Repeat([]byte("1"), 5000)
		e, _ := w.Row(w.submit(job))
		a := w.Recorded(e, 1, ruin)
		w.Befall(func(_ context.Context, op string) schematest.Fault { return schematest.Fault{} })
		// where nothing lies
		e.Payload, e.Spec.PayloadAt = nil, schema.MakeEntryID(e.Due(), e.ID.Shard(), 1)
		w.followUp(bucketer.Finished{Entry: e, Attempt: a})
		if _, err := w.Replay(t.Context(), "t", e.ID, "me"); !errors.Is(err, ErrPayloadGone) {
			t.Errorf("Replay = %v, want ErrPayloadGone", err)
		}
	})
}

// TestEarlierAttemptsAreTold: of those whose rows have left the letter tells, whatever other rows
// of the run there are.
func TestEarlierAttemptsAreTold(t *testing.T) {
	row := func(number int, fence schema.Fence) schema.Attempt {
		return schema.Attempt{Number: number, Fence: fence, Record: &schema.Record{Status: number}}
	}
	stored := []schema.Attempt{row(0, 1), row(0, 2), row(2, 5), row(2, 6), row(3, 7)}
	told := []schema.Attempt{row(1, 4), row(2, 5), row(3, 0)}
	var got []string
	for _, a := range withMissing(stored, told) {
		got = append(got, fmt.Sprintf("%d/%d", a.Number, a.Fence))
	}
	if want := "0/1 0/2 1/4 2/5 2/6 3/7"; strings.Join(got, " ") != want {
		t.Errorf("attempts by number and fence: %q, want %q", got, want)
	}
}
