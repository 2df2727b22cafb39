package executor

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// answers is a callee that answers so, after a while.
func answers(after time.Duration, r target.Result) func(context.Context, target.Call) target.Result {
	return func(ctx context.Context, _ target.Call) target.Result {
		select {
		case <-time.After(after):
			return r
		case <-ctx.Done():
			return target.Ended(ctx)
		}
	}
}

// history returns the lines of a job of the day of that due time.
func (w *world) history(job schema.JobID, due time.Time) []schema.JobRun {
	w.t.Helper()
	lines, err := w.inner.JobRuns(context.Background(), job, schema.PeriodOf(due), schema.RunID{}, 100)
	if err != nil {
		w.t.Fatalf("history: %v", err)
	}
	return lines
}

// TestWhatAFirstStartOfAJobWrites: the record first, then what follows from it, the line of history
// among that, and only then a word to anybody. A line is written once, at the end of the run, and
// says what the record says. A run that ends well costs one write of each.
func TestWhatAFirstStartOfAJobWrites(t *testing.T) {
	succeeded, failed, final := target.Result{Outcome: schema.Succeeded}, target.Result{Outcome: schema.Failed, Error: "no"}, target.Result{Outcome: schema.Failed, Error: "no", Final: true}
	for _, c := range []struct {
		name    string
		state   schema.JobState // of the job; "" = active
		cut     time.Duration   // of its last change, from now; 0 = it never changed
		number  int64           // of the run's generation; 0 = the one in force
		trigger schema.Trigger
		callee  func(context.Context, target.Call) target.Result
		only    bool // one attempt is allowed
		stale   bool // what was read of it is old: it is looked at again
		cancel  bool // while it is under way
		want    string
		line    schema.State // "" = none
		started bool         // the line says when
	}{
		{name: "it succeeds", callee: answers(0, succeeded), want: "start 1, record 1 succeeded, line succeeded, notice, ack", line: schema.StateSucceeded, started: true},
		{
			name: "it takes longer than a second", callee: answers(3*time.Second, succeeded),
			want: "start 1, session 1, ack, record 1 succeeded, line succeeded, notice", line: schema.StateSucceeded, started: true,
		},
		{name: "it is to be tried again", callee: answers(0, failed), want: "start 1, record 1 failed, entry retry, notice, ack"},
		{
			name: "it fails for good", callee: answers(0, final),
			want: "start 1, record 1 failed, letter, line failed, notice, ack", line: schema.StateFailed, started: true,
		},
		{
			name: "the only attempt fails", callee: answers(0, failed), only: true,
			want: "start 1, record 1 failed, letter, line failed, notice, ack", line: schema.StateFailed, started: true,
		},
		{
			name: "it is cancelled under way", callee: answers(time.Minute, succeeded), cancel: true,
			want: "start 1, record 1 cancelled, line cancelled, notice, ack", line: schema.StateCancelled, started: true,
		},
		{
			name: "looked at again", callee: answers(0, succeeded), stale: true,
			want: "session 1, start 1, record 1 succeeded, line succeeded, notice, ack", line: schema.StateSucceeded, started: true,
		},
		{
			name: "of a backfill of a paused job", state: schema.JobPaused, cut: -time.Minute, trigger: schema.TriggerBackfill, callee: answers(0, succeeded), stale: true,
			want: "session 1, start 1, record 1 succeeded, line succeeded, notice, ack", line: schema.StateSucceeded, started: true,
		},
		{name: "its job was changed before", cut: 500 * time.Millisecond, number: genBefore, stale: true, want: "record 0 cancelled, line cancelled, notice, ack", line: schema.StateCancelled},
		{name: "its job was cancelled", state: schema.JobCancelled, cut: -time.Minute, stale: true, want: "record 0 cancelled, line cancelled, notice, ack", line: schema.StateCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x")
				if c.callee != nil {
					w.answer(c.callee)
				}
				state, number := c.state, c.number
				if state == "" {
					state = schema.JobActive
				}
				if number == 0 {
					number = genCurrent
				}
				var cut time.Time
				if c.cut != 0 {
					cut = time.Now().Add(c.cut)
				}
				job := w.job(state, cut, nil)
				due := inAWhile(time.Second)
				nominal := due.Add(-300 * time.Millisecond).UTC() // the job's offset
				e := w.entry(due, of(job, number), func(s *schema.Spec) {
					s.Nominal, s.Trigger = nominal, c.trigger
					if s.Work.Retry.Initial = schema.Duration(time.Hour); c.only {
						s.Work.Retry.MaxAttempts = 1
					}
				})
				read := time.Now()
				if c.stale {
					read = time.Time{}
				}
				w.publish(e, read)
				if c.cancel {
					time.Sleep(time.Until(due.Add(500 * time.Millisecond)))
					x.Cancel(e.ID)
				}
				time.Sleep(8 * time.Second)
				w.want("the run", c.want)
				calls := w.counts.Tallies()
				lines := w.history(job.ID, due)
				if c.line == "" {
					if len(lines) != 0 || calls["PutJobRuns"].Calls != 0 {
						t.Errorf("history has %+v by %d writes, want nothing yet", lines, calls["PutJobRuns"].Calls)
					}
					return
				}
				rec := w.attempts(e.ID)[0].Record
				want := schema.JobRun{Job: job.ID, Run: e.ID, State: c.line, Nominal: nominal, Started: rec.Started, Finished: rec.Finished, Missed: rec.Missed}
				if len(lines) != 1 {
					t.Fatalf("history has %d lines, want one: %+v", len(lines), lines)
				}
				got := lines[0]
				got.Written, got.Expires = 0, time.Time{}
				if got != want || got.Started.IsZero() == c.started {
					t.Errorf("the line is\n%+v, want\n%+v, with a start: %v", got, want, c.started)
				}
				if n := calls["PutJobRuns"].Calls; n != 1 {
					t.Errorf("%d writes of history, want one", n)
				}
				if n := calls["PutAttempts"].Calls; c.line == schema.StateSucceeded && c.callee != nil && n > 2 {
					t.Errorf("%d writes of attempts, want one, and one of its session at the most", n)
				}
			})
		})
	}
}

// TestALineOfHistoryIsHeldBeforeTheEndIsTold: whatever fails on the way is tried again, and nobody
// is told before the line is held.
func TestALineOfHistoryIsHeldBeforeTheEndIsTold(t *testing.T) {
	const record, end = "record 1 succeeded", "line succeeded, notice, ack"
	for _, c := range []struct {
		name  string
		op    string
		fault schematest.Fault
		want  string
	}{
		{"the record fails", "PutAttempts", schematest.Fault{Fail: true}, record + ", " + end},
		{"the line fails", "PutJobRuns", schematest.Fault{Fail: true}, record + ", " + record + ", " + end},
		{"the line's answer is lost", "PutJobRuns", schematest.Fault{Lose: true}, record + ", line succeeded, " + record + ", " + end},
		{"the line hangs", "PutJobRuns", schematest.Fault{Delay: time.Minute}, record + ", " + record + ", " + end},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				job := w.job(schema.JobActive, time.Time{}, nil)
				e := w.entry(inAWhile(time.Second), of(job, genCurrent))
				w.befallOnce(c.op, c.fault)
				w.publish(e, time.Now())
				time.Sleep(10 * time.Second)
				w.want("the run", "start 1, "+c.want)
				if lines := w.history(job.ID, e.Due()); len(lines) != 1 || lines[0].State != schema.StateSucceeded {
					t.Errorf("history = %+v, want one line", lines)
				}
			})
		})
	}
}

// TestLinesOfOneJobShareWrites: of many runs that end together.
func TestLinesOfOneJobShareWrites(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		job := w.job(schema.JobActive, time.Time{}, nil)
		const runs = 50
		due := inAWhile(2 * time.Second)
		for range runs {
			w.publish(w.entry(due, of(job, genCurrent), func(s *schema.Spec) { s.Trigger = schema.TriggerBackfill }), time.Now())
		}
		time.Sleep(5 * time.Second)
		if lines := w.history(job.ID, due); len(lines) != runs {
			t.Errorf("history has %d lines, want %d", len(lines), runs)
		}
		if n := w.counts.Tallies()["PutJobRuns"].Calls; n > 5 {
			t.Errorf("%d writes of history for %d runs that ended together, want a few", n, runs)
		}
	})
}
