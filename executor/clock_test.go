package executor

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// An attempt that was under way while the clock was set back ended before it had started, and the
// retry drawn from that lay behind what the dispatcher had swept.
func TestAttemptEndsAfterItsStartWhileTheClockIsSet(t *testing.T) {
	const took = 700 * time.Millisecond
	for name, c := range map[string]struct {
		set  time.Duration
		want time.Duration // from start to end
	}{
		"right":            {0, took},
		"set back":         {-90 * time.Second, took},
		"set back a bit":   {-300 * time.Millisecond, took},
		"set ahead":        {90 * time.Second, took + 90*time.Second}, // nobody can tell from a machine that slept: late, not lost
		"set back for now": {-took, took},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x1")
				w.answer(func(context.Context, target.Call) target.Result {
					time.Sleep(took / 2)
					x.skew.Store(int64(c.set))
					time.Sleep(took - took/2)
					return target.Result{Outcome: schema.Failed}
				})
				e := w.entry(inAWhile(time.Second))
				w.publish(e, e.Due())
				time.Sleep(time.Until(e.Due().Add(took + time.Second)))
				got := w.attempts(e.ID)
				if len(got) != 1 || got[0].Record == nil {
					t.Fatalf("attempts: got %+v, want one with its record", got)
				}
				rec := got[0].Record
				if passed := rec.Finished.Sub(rec.Started); passed != c.want {
					t.Errorf("the attempt lasted %v by its record, want %v", passed, c.want)
				}
				if wait := rec.Next.Time().Sub(rec.Finished); wait < time.Second || wait >= time.Second+time.Millisecond {
					t.Errorf("the next start is due %v after the end, want 1s", wait)
				}
				if got[0].Written != rec.Finished.UnixMicro() {
					t.Errorf("written at %v, want when it ended, at %v", time.UnixMicro(got[0].Written).UTC(), rec.Finished)
				}
			})
		})
	}
}

// A lost attempt whose executor's clock is ahead of the reaper's does not end before it started.
func TestLostAttemptEndsAfterItsStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		session := w.session(e, "a", time.Now().Add(-time.Minute))
		session.Started = e.Due().Add(2 * time.Second)
		w.attempt(e, 1, nil, session)
		w.publish(e, time.Now(), redispatched)
		time.Sleep(time.Until(e.Due().Add(time.Second)))
		for _, a := range w.attempts(e.ID) {
			if a.Number == 1 && (a.Record == nil || a.Record.Outcome != schema.Lost || a.Record.Finished.Before(a.Record.Started)) {
				t.Errorf("record: got %+v, want lost, and not before its start", a.Record)
			}
		}
	})
}
