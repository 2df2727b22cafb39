package executor

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// An attempt that another message may have started says so in its record, and only then.
func TestAnAttemptThatMayHaveStartedIsRecordedSo(t *testing.T) {
	deferral := func(may bool) func(*schema.Spec) {
		return func(s *schema.Spec) { s.Kind, s.MayHaveStarted = schema.KindDeferral, may }
	}
	for name, c := range map[string]struct {
		of     func(*schema.Spec)
		change []func(*queue.Envelope)
		want   bool
	}{
		"the first message":                {func(*schema.Spec) {}, nil, false},
		"a redispatch":                     {func(*schema.Spec) {}, []func(*queue.Envelope){redispatched}, true},
		"a deferral":                       {deferral(false), nil, false},
		"a deferral of what may have been": {deferral(true), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("e-1")
				e := w.entry(inAWhile(time.Second))
				run := e.ID
				if c.of(&e.Spec); e.Spec.Kind == schema.KindDeferral {
					e = w.entry(inAWhile(time.Second), c.of, func(s *schema.Spec) { s.Of, s.For = run, run })
				}
				w.publish(e, time.Now(), c.change...)
				time.Sleep(2 * time.Second)
				if rec := w.only(run); rec.Outcome != schema.Succeeded || rec.Redispatched != c.want {
					t.Errorf("record: %s, redispatched %t, want succeeded, %t", rec.Outcome, rec.Redispatched, c.want)
				}
			})
		})
	}
}

// A deferral says whether its attempt may have started before.
func TestDeferralsOfWhatMayHaveStartedSaySo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("e-1")
		w.answerHosts(func(target.Call) target.Result { return target.Result{Outcome: schema.Failed, Error: "no"} })
		for range admission.BreakerAttempts {
			w.publish(w.entry(inAWhile(time.Second)), time.Now())
		}
		time.Sleep(2 * time.Second)
		first, again := w.entry(inAWhile(100*time.Millisecond)), w.entry(inAWhile(100*time.Millisecond))
		w.publish(first, time.Now())
		w.publish(again, time.Now(), redispatched)
		time.Sleep(time.Second)
		for _, c := range []struct {
			e    schema.Entry
			want bool
		}{{first, false}, {again, true}} {
			if all := w.deferrals(c.e); len(all) != 1 || all[0].Spec.MayHaveStarted != c.want {
				t.Errorf("deferrals: %+v, want one that may have started: %t", all, c.want)
			}
		}
	})
}

// A run that a limit holds back may have been called before, by an executor that died: the entry that
// takes its turn says so.
func TestTurnsOfWhatMayHaveStartedSaySo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("e-1")
		end := w.lingering()
		job := w.limited(1, schema.OnLimitQueue)
		due := func(d time.Duration) schema.Entry { return w.entry(inAWhile(d), ofLimited(job)) }
		begun, first, again := due(time.Second), due(2*time.Second), due(3*time.Second)
		w.publish(begun, time.Now())
		w.publish(first, time.Now())
		w.publish(again, time.Now(), redispatched)
		time.Sleep(4 * time.Second)
		seen := make(map[schema.EntryID]bool)
		for _, e := range []schema.Entry{begun, first, again} {
			end(e.ID)
			time.Sleep(time.Second)
			w.turns(seen)
			time.Sleep(time.Second)
		}
		for _, c := range []struct {
			e    schema.Entry
			want bool
		}{{begun, false}, {first, false}, {again, true}} {
			i := slices.IndexFunc(w.attempts(c.e.ID), func(a schema.Attempt) bool { return a.Number == 1 && a.Record != nil })
			if i < 0 {
				t.Errorf("run %s: no record", c.e.ID)
			} else if rec := w.attempts(c.e.ID)[i].Record; rec.Outcome != schema.Succeeded || rec.Redispatched != c.want {
				t.Errorf("record: %s, redispatched %t, want succeeded, %t", rec.Outcome, rec.Redispatched, c.want)
			}
		}
	})
}
