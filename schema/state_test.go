package schema_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

// rows builds the attempts of a run for a test of the fold.
type rows []schema.Attempt

// ended adds an attempt with a record.
func (r rows) ended(number int, outcome schema.Outcome, more ...func(*schema.Record)) rows {
	record := &schema.Record{Outcome: outcome}
	for _, m := range more {
		m(record)
	}
	return append(r, schema.Attempt{Run: theRun, Number: number, Fence: schema.Fence(number), Record: record})
}

// under adds an attempt with a session and no record.
func (r rows) under(number int, session string) rows {
	return append(r, schema.Attempt{
		Run: theRun, Number: number, Fence: schema.Fence(number),
		Session: &schema.SessionRef{Executor: "ex", ID: session, Entry: theRun},
	})
}

var (
	begin  = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	theRun = schema.MakeEntryID(begin, 1, 1)
	retry  = schema.MakeEntryID(begin.Add(time.Second), 1, 2)
)

func final(r *schema.Record)   { r.Final = true }
func retried(r *schema.Record) { r.Next = retry }

// live knows the sessions of this test: those named live stand.
func live(s schema.SessionRef) bool { return s.ID == "live" }

func TestFold(t *testing.T) {
	cancelled := schema.Marks{Cancelled: &schema.Cancel{At: begin}}
	moved := schema.Marks{MovedTo: retry}
	for _, c := range []struct {
		name     string
		marks    schema.Marks
		attempts rows
		want     schema.State
	}{
		{name: "nothing happened", want: schema.StatePending},
		{name: "rescheduled", marks: moved, want: schema.StatePending},

		// A success → succeeded, for ever.
		{name: "success", attempts: rows{}.ended(1, schema.Succeeded), want: schema.StateSucceeded},
		{name: "success after failures", attempts: rows{}.ended(1, schema.Failed, retried).ended(2, schema.Succeeded), want: schema.StateSucceeded},
		{name: "late success of an attempt that was lost", attempts: rows{}.ended(1, schema.Succeeded).ended(2, schema.Lost, final), want: schema.StateSucceeded},
		{name: "late success turns failed", attempts: rows{}.ended(1, schema.Succeeded).ended(2, schema.Failed, final), want: schema.StateSucceeded},
		{name: "late success turns cancelled", marks: cancelled, attempts: rows{}.ended(1, schema.Succeeded), want: schema.StateSucceeded},
		{name: "late success turns missed", attempts: rows{}.ended(0, schema.Missed).ended(1, schema.Succeeded), want: schema.StateSucceeded},
		{name: "success while another attempt lives", attempts: rows{}.ended(1, schema.Succeeded).under(2, "live"), want: schema.StateSucceeded},
		{name: "failure recorded after a success", attempts: rows{}.ended(1, schema.Succeeded).ended(2, schema.Superseded), want: schema.StateSucceeded},

		// Runs of workflows, and steps that are not run.
		{name: "a workflow has begun", attempts: rows{}.ended(1, schema.Began), want: schema.StateRunning},
		{name: "a workflow was cancelled before it began, and its beginning came late", marks: cancelled, attempts: rows{}.ended(0, schema.Cancelled).ended(1, schema.Began), want: schema.StateCancelled},
		{name: "a workflow was missed, and its beginning came late", attempts: rows{}.ended(0, schema.Missed).ended(1, schema.Began), want: schema.StateMissed},
		{name: "a workflow's entry was replaced, and it has begun", attempts: rows{}.ended(0, schema.Replaced).ended(1, schema.Began), want: schema.StateRunning},
		{name: "a workflow has begun, and its run was cancelled", marks: cancelled, attempts: rows{}.ended(1, schema.Began), want: schema.StateRunning},
		{name: "a workflow failed", attempts: rows{}.ended(1, schema.Failed, final), want: schema.StateFailed},
		{name: "a step was skipped", attempts: rows{}.ended(0, schema.Skipped), want: schema.StateSkipped},
		{name: "a step was skipped while it ran to its end", attempts: rows{}.ended(0, schema.Skipped).ended(1, schema.Succeeded), want: schema.StateSucceeded},
		{name: "a step was taken over", attempts: rows{}.ended(0, schema.Succeeded), want: schema.StateSucceeded},
		{name: "a step could not be started", attempts: rows{}.ended(0, schema.Failed, final), want: schema.StateFailed},

		// A cancel mark or outcome with no live session → cancelled.
		{name: "cancelled before it started", marks: cancelled, want: schema.StateCancelled},
		{name: "cancelled, as attempt 0 says", attempts: rows{}.ended(0, schema.Cancelled), want: schema.StateCancelled},
		{name: "cancelled while running, still running", marks: cancelled, attempts: rows{}.under(1, "live"), want: schema.StateRunning},
		{name: "cancelled while running, its session died", marks: cancelled, attempts: rows{}.under(1, "dead"), want: schema.StateCancelled},
		{name: "cancelled while running, and stopped", marks: cancelled, attempts: rows{}.ended(1, schema.Cancelled), want: schema.StateCancelled},
		{name: "stopped without a mark", attempts: rows{}.ended(1, schema.Cancelled), want: schema.StateCancelled},
		{name: "cancelled between two attempts", marks: cancelled, attempts: rows{}.ended(1, schema.Failed, retried), want: schema.StateCancelled},
		{name: "cancelled and failed for good", marks: cancelled, attempts: rows{}.ended(1, schema.Failed, final), want: schema.StateCancelled},
		{name: "cancelled and missed", marks: cancelled, attempts: rows{}.ended(0, schema.Missed), want: schema.StateCancelled},
		{name: "cancelled and moved", marks: schema.Marks{Cancelled: cancelled.Cancelled, MovedTo: retry}, want: schema.StateCancelled},

		// A final failure or attempts exhausted → failed.
		{name: "failed for good", attempts: rows{}.ended(1, schema.Failed, final), want: schema.StateFailed},
		{name: "timed out for good", attempts: rows{}.ended(1, schema.TimedOut, final), want: schema.StateFailed},
		{name: "lost for good", attempts: rows{}.ended(1, schema.Failed, retried).ended(2, schema.Lost, final), want: schema.StateFailed},
		{name: "failed for good beside a live session", attempts: rows{}.ended(1, schema.Failed, final).under(2, "live"), want: schema.StateFailed},
		{name: "cancelled, failed for good, and one still live: it would be cancelled in the end", marks: cancelled, attempts: rows{}.ended(1, schema.Failed, final).under(1, "live"), want: schema.StateRunning},
		{name: "a final outcome that lost its fence", attempts: rows{}.ended(1, schema.Superseded, final), want: schema.StatePending},

		// A live session → running.
		{name: "running", attempts: rows{}.under(1, "live"), want: schema.StateRunning},
		{name: "running its second attempt", attempts: rows{}.ended(1, schema.Failed, retried).under(2, "live"), want: schema.StateRunning},
		{name: "running its second attempt after a loss", attempts: rows{}.under(1, "dead").under(2, "live"), want: schema.StateRunning},
		{name: "running, though its redispatch was missed", attempts: rows{}.ended(0, schema.Missed).under(1, "live"), want: schema.StateRunning},
		{name: "its session fell without a record", attempts: rows{}.under(1, "dead"), want: schema.StatePending},
		{name: "a record ends a session that still stands", attempts: rows{{
			Run: theRun, Number: 1, Record: &schema.Record{Outcome: schema.Failed, Next: retry}, Session: &schema.SessionRef{ID: "live"},
		}}, want: schema.StateRetrying},
		{name: "neither session nor record", attempts: rows{{Run: theRun, Number: 1}}, want: schema.StatePending},

		// A next start named in the last record → retrying.
		{name: "retrying", attempts: rows{}.ended(1, schema.Failed, retried), want: schema.StateRetrying},
		{name: "retrying after a time-out", attempts: rows{}.ended(1, schema.TimedOut, retried), want: schema.StateRetrying},
		{name: "retrying after its retry's session fell", attempts: rows{}.ended(1, schema.Failed, retried).under(2, "dead"), want: schema.StateRetrying},
		{name: "retrying though attempt 0 says missed", attempts: rows{}.ended(0, schema.Missed).ended(1, schema.Failed, retried), want: schema.StateRetrying},
		{name: "a superseded record is not the last", attempts: rows{}.ended(1, schema.Failed, retried).ended(2, schema.Superseded), want: schema.StateRetrying},
		{name: "the last record names none", attempts: rows{}.ended(1, schema.Failed, retried).ended(2, schema.Lost), want: schema.StatePending},
		{name: "of one number the higher fence is the last", attempts: rows{
			{Number: 1, Fence: 9, Record: &schema.Record{Outcome: schema.Failed, Next: retry}},
			{Number: 1, Fence: 8, Record: &schema.Record{Outcome: schema.Lost}},
		}, want: schema.StateRetrying},

		// Attempt 0 → what it says; else pending.
		{name: "missed", attempts: rows{}.ended(0, schema.Missed), want: schema.StateMissed},
		{name: "missed after a loss", attempts: rows{}.ended(0, schema.Missed).ended(1, schema.Lost), want: schema.StateMissed},
		{name: "handed on", attempts: rows{}.ended(0, schema.Replaced), want: schema.StatePending},
		{name: "handed on, then missed", attempts: rows{}.ended(0, schema.Replaced).ended(0, schema.Missed), want: schema.StateMissed},
		{name: "handed on, with a next", attempts: rows{}.ended(0, schema.Replaced, retried), want: schema.StatePending},
		{name: "effectively once: a lost fence and the holder's failure", attempts: rows{}.ended(1, schema.Superseded).ended(2, schema.Failed, final), want: schema.StateFailed},
		{name: "effectively once: a lost fence, the holder lives", attempts: rows{}.ended(1, schema.Superseded).under(2, "live"), want: schema.StateRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, attempts := range orders(c.attempts) {
				if got := schema.Fold(c.marks, attempts, live); got != c.want {
					t.Errorf("Fold(%+v, %d attempts) = %s, want %s", c.marks, len(attempts), got, c.want)
				}
			}
		})
	}
}

// TestOverruled: of several records one is the outcome of the run.
func TestOverruled(t *testing.T) {
	at := func(ms int) func(*schema.Record) {
		return func(r *schema.Record) { r.Finished = begin.Add(time.Duration(ms) * time.Millisecond) }
	}
	unstarted := func(r *schema.Record) { r.Unstarted = true }
	for _, c := range []struct {
		name     string
		attempts rows
		want     []bool
	}{
		{name: "nothing else", attempts: rows{}.ended(1, schema.Cancelled), want: []bool{false}},
		{name: "executed twice: a success, then a cancel", attempts: rows{}.ended(1, schema.Succeeded, at(1)).ended(1, schema.Cancelled, at(27)), want: []bool{false, true}},
		{name: "executed twice: a success and a failure at once", attempts: rows{}.ended(1, schema.Succeeded, at(1)).ended(1, schema.Failed, final, at(1)), want: []bool{false, true}},
		{name: "a late success: the cancel was the outcome until then", attempts: rows{}.ended(1, schema.Succeeded, at(27)).ended(1, schema.Cancelled, at(1)), want: []bool{false, false}},
		{name: "a failure of a later attempt after a success", attempts: rows{}.ended(1, schema.Succeeded, at(1)).ended(2, schema.TimedOut, final, at(2)), want: []bool{false, true}},
		{name: "a retry after a failure", attempts: rows{}.ended(1, schema.Failed, retried, at(1)).ended(2, schema.Succeeded, at(2)), want: []bool{false, false}},
		{name: "executed twice: a failure for good, then a cancel", attempts: rows{}.ended(1, schema.Failed, final, at(1)).ended(1, schema.Cancelled, at(2)), want: []bool{true, false}},
		{name: "a failure before the attempt that was cancelled", attempts: rows{}.ended(1, schema.Failed, retried, at(1)).ended(2, schema.Cancelled, at(2)), want: []bool{false, false}},
		{name: "two successes", attempts: rows{}.ended(1, schema.Succeeded, at(1)).ended(1, schema.Succeeded, at(2)), want: []bool{false, false}},
		{name: "two cancels", attempts: rows{}.ended(1, schema.Cancelled, at(1)).ended(1, schema.Cancelled, at(2)), want: []bool{false, false}},
		{name: "attempt 0 is none", attempts: rows{}.ended(0, schema.Missed, at(2)).ended(1, schema.Succeeded, at(1)), want: []bool{false, false}},
		{name: "what never started overrules nothing", attempts: rows{}.ended(1, schema.Failed, at(1)).ended(1, schema.Cancelled, unstarted), want: []bool{false, false}},
		{name: "one under way", attempts: rows{}.ended(1, schema.Succeeded, at(1)).under(1, "live"), want: []bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.want {
				if got := schema.IsSuperseded(c.attempts, i); got != want {
					t.Errorf("Overruled(attempts, %d: %+v) = %v, want %v", i, c.attempts[i].Record, got, want)
				}
			}
		})
	}
}

// orders returns attempts forwards and backwards: their order does not matter.
func orders(attempts rows) [2]rows {
	var back rows
	for i := range attempts {
		back = append(back, attempts[len(attempts)-1-i])
	}
	return [2]rows{attempts, back}
}

func drawAttempts(t *rapid.T) rows {
	var r rows
	for range rapid.IntRange(0, 5).Draw(t, "attempts") {
		number := rapid.IntRange(0, 3).Draw(t, "number")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			r = r.under(number, rapid.SampledFrom([]string{"live", "dead"}).Draw(t, "session"))
		default:
			outcomes := []schema.Outcome{
				schema.Succeeded, schema.Failed, schema.TimedOut, schema.Lost, schema.Superseded,
				schema.Cancelled, schema.Missed, schema.Replaced,
			}
			record := func(rec *schema.Record) {
				rec.Final = rapid.Bool().Draw(t, "final")
				if rapid.Bool().Draw(t, "retried") {
					rec.Next = retry
				}
			}
			r = r.ended(number, rapid.SampledFrom(outcomes).Draw(t, "outcome"), record)
			r[len(r)-1].Fence = schema.Fence(len(r)) // rows differ
		}
	}
	return r
}

// A late row may turn a terminal state into a success and never into anything that goes on; a
// success is for ever; and the order of rows does not matter.
func TestFoldOnlyMovesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempts := drawAttempts(t)
		marks := schema.Marks{}
		if rapid.Bool().Draw(t, "cancelled") {
			marks.Cancelled = &schema.Cancel{At: begin}
		}
		state := schema.Fold(marks, attempts, live)
		shuffled := rapid.Permutation(attempts).Draw(t, "order")
		if got := schema.Fold(marks, shuffled, live); got != state {
			t.Errorf("Fold = %s, of the same rows in another order %s", state, got)
		}
		success := attempts.ended(9, schema.Succeeded)
		if got := schema.Fold(marks, success, live); got != schema.StateSucceeded {
			t.Errorf("Fold with a success = %s", got)
		}
		if got := schema.Fold(marks, success.ended(10, schema.Failed, final), live); got != schema.StateSucceeded {
			t.Errorf("Fold with a failure after a success = %s", got)
		}
		if superseded := schema.Fold(marks, attempts.ended(9, schema.Superseded, final, retried), live); superseded != state {
			t.Errorf("Fold = %s, with a superseded outcome %s", state, superseded)
		}
	})
}

// live is asked only about attempts whose state hangs on it.
func TestFoldAsksOnlyAboutOpenSessions(t *testing.T) {
	asked := 0
	attempts := rows{{Number: 1, Record: &schema.Record{Outcome: schema.Failed}, Session: &schema.SessionRef{}}, {Number: 2}}
	schema.Fold(schema.Marks{}, attempts.under(3, "dead"), func(schema.SessionRef) bool { asked++; return false })
	if asked != 1 {
		t.Errorf("live was asked %d times, want once", asked)
	}
}

func TestTerminal(t *testing.T) {
	for state, want := range map[schema.State]bool{
		schema.StatePending: false, schema.StateRunning: false, schema.StateRetrying: false, "": false,
		schema.StateSucceeded: true, schema.StateFailed: true, schema.StateCancelled: true, schema.StateMissed: true,
	} {
		if got := state.Terminal(); got != want {
			t.Errorf("%q.Terminal() = %v, want %v", state, got, want)
		}
	}
}

// TestHeldBack: a run waits while the last of its entries that was held back has no other in its
// place, and nothing was started since.
func TestHeldBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	run := schema.MakeEntryID(at, 1, 1)
	later := schema.MakeEntryID(at.Add(time.Minute), 1, 2)
	row := func(entry schema.EntryID, after time.Duration, o schema.Outcome, to schema.EntryID) schema.Attempt {
		rec := &schema.Record{Entry: entry, Finished: at.Add(after), Outcome: o, To: to}
		if o == schema.Replaced && to.IsZero() {
			rec.Reason = "concurrency: a run of the job was under way"
		}
		return schema.Attempt{Run: run, Record: rec}
	}
	caughtUp := schema.Attempt{Run: run, Record: &schema.Record{Entry: run, Finished: at, Outcome: schema.Replaced}}
	held := row(run, 0, schema.Replaced, schema.EntryID{})
	turn := row(run, time.Minute, schema.Replaced, later)
	again := row(later, 2*time.Minute, schema.Replaced, schema.EntryID{})
	begun := schema.Attempt{Run: run, Number: 1, Session: &schema.SessionRef{Started: at.Add(time.Minute)}}
	ended := schema.Attempt{Run: run, Number: 1, Record: &schema.Record{Started: at.Add(time.Minute), Outcome: schema.Failed}}
	before := schema.Attempt{Run: run, Number: 1, Record: &schema.Record{Started: at.Add(-time.Minute), Outcome: schema.Failed}}
	for _, c := range []struct {
		name string
		rows []schema.Attempt
		want *schema.Record
	}{
		{"nothing is known", nil, nil},
		{"it was held back", []schema.Attempt{held}, held.Record},
		{"its turn has come", []schema.Attempt{turn, held}, nil},
		{"it was held back again", []schema.Attempt{again, held, turn}, again.Record},
		{"it has begun since", []schema.Attempt{held, begun}, nil},
		{"it has ended since", []schema.Attempt{held, ended}, nil},
		{"an attempt before", []schema.Attempt{held, before}, held.Record},
		{"another entry stands in, for no limit's sake", []schema.Attempt{turn}, nil},
		{"it was the last step of a catch-up", []schema.Attempt{caughtUp}, nil},
		{"it was given up", []schema.Attempt{held, row(run, time.Minute, schema.Missed, schema.EntryID{})}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := schema.LimitHold(c.rows); got != c.want {
				t.Errorf("HeldBack = %+v, want %+v", got, c.want)
			}
		})
	}
}
