package schema_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestJudge(t *testing.T) {
	run, second := schema.Spec{}, schema.Spec{Kind: schema.KindRetry, Of: theRun, Attempt: 2}
	moving := schema.Spec{Kind: schema.KindReschedule, Of: theRun}
	moved := schema.MakeEntryID(begin.Add(time.Hour), 1, 3)
	watch := func(first schema.EntryID) schema.Spec {
		return schema.Spec{Kind: schema.KindWatch, Of: theRun, For: first}
	}
	byRetry := func(r *schema.Record) { r.Entry = retry }
	byRun := func(r *schema.Record) { r.Entry = theRun }
	byWatch := func(r *schema.Record) { r.Entry = schema.MakeEntryID(begin, 1, 4) }
	putOff := func(to schema.EntryID) func(*schema.Record) {
		return func(r *schema.Record) { r.To, r.Reason = to, schema.Deferred }
	}
	unstarted, stopped := func(r *schema.Record) { r.Unstarted = true }, func(r *schema.Record) { r.Preempted = true }
	ofJob := schema.Spec{Job: schema.MakeJobID(begin, 1, 1)}
	ofWorkflow, ofStep := schema.Spec{Workflow: new(schema.WorkflowRun)}, schema.Spec{Step: new(schema.Step)}
	catchUp := schema.Spec{Kind: schema.KindCatchUp, Of: theRun, Job: ofJob.Job}
	for _, c := range []struct {
		name     string
		id       schema.EntryID
		spec     schema.Spec
		marks    schema.Marks
		attempts rows
		over     bool
		repeat   int // the attempt whose follow-ups are to be repeated
		unnamed  bool
		live     bool
		dead     int
		next     int
		told     bool // attempt 0 is to be repeated
		awaited  schema.EntryID
		stopped  int // for critical runs
	}{
		{name: "nothing happened", id: theRun, spec: run, next: 1},
		{name: "running", id: theRun, spec: run, attempts: rows{}.under(1, "live"), live: true, next: 1},
		{name: "a workflow has begun", id: theRun, spec: ofWorkflow, attempts: rows{}.ended(1, schema.Began, byRun), live: true, next: 1},
		{name: "a workflow has ended", id: theRun, spec: ofWorkflow, attempts: rows{}.ended(1, schema.Succeeded, byRun), over: true, next: 1},
		{name: "a step has succeeded: others may follow", id: theRun, spec: ofStep, attempts: rows{}.ended(1, schema.Succeeded, byRun), over: true, repeat: 1, next: 1},
		{name: "its session fell", id: theRun, spec: run, attempts: rows{}.under(1, "dead"), dead: 1, next: 2},
		{name: "lost, and started again from here", id: theRun, spec: run, attempts: rows{}.ended(1, schema.Lost, byRun), next: 2},
		{
			name: "succeeded: somebody may listen", id: theRun, spec: run,
			attempts: rows{}.ended(1, schema.Succeeded, byRun, func(r *schema.Record) { r.Announce = true }), over: true, repeat: 1, next: 1,
		},
		{name: "succeeded", id: theRun, spec: run, attempts: rows{}.ended(1, schema.Succeeded, byRun), over: true, next: 1},
		{name: "failed, its retry not seen", id: theRun, spec: run, attempts: rows{}.ended(1, schema.Failed, byRun, retried), over: true, repeat: 1, next: 1},
		{
			name: "failed, its retry under way", id: theRun, spec: run,
			attempts: rows{}.ended(1, schema.Failed, byRun, retried).under(2, "live"), over: true, live: true, next: 1,
		},
		{name: "failed for good", id: theRun, spec: run, attempts: rows{}.ended(1, schema.Failed, byRun, final), over: true, repeat: 1, next: 1},
		{name: "lost for good", id: theRun, spec: run, attempts: rows{}.ended(1, schema.Lost, byRun, final), over: true, repeat: 1, next: 1},
		{
			name: "a success that may not be alone", id: theRun, spec: run,
			attempts: rows{}.ended(1, schema.Succeeded, byRun, func(r *schema.Record) { r.Doubt = true }), over: true, repeat: 1, next: 1,
		},
		{
			name: "a success that may not be alone, and what failed for good after it", id: theRun, spec: run,
			attempts: rows{}.ended(1, schema.Succeeded, byRun, func(r *schema.Record) { r.Doubt = true }).ended(2, schema.Failed, byRetry, final), over: true, repeat: 1, next: 1,
		},
		{
			name: "what failed, and a success after it that may not be alone", id: theRun, spec: run,
			attempts: rows{}.ended(1, schema.Failed, byRun, retried).ended(2, schema.Succeeded, byRetry, func(r *schema.Record) { r.Doubt = true }), over: true, repeat: 2, next: 1,
		},
		{name: "the retry of a failure", id: retry, spec: second, attempts: rows{}.ended(1, schema.Failed, byRun, retried), next: 2},
		{
			name: "the retry, done", id: retry, spec: second,
			attempts: rows{}.ended(1, schema.Failed, byRun, retried).ended(2, schema.Failed, byRetry, retried), over: true, repeat: 2, next: 2,
		},
		{name: "handed on", id: theRun, spec: run, attempts: rows{}.ended(0, schema.Replaced, byRun), over: true, next: 1},
		{name: "another entry handed on", id: theRun, spec: run, attempts: rows{}.ended(0, schema.Replaced, byRetry), next: 1},
		{name: "missed", id: theRun, spec: run, attempts: rows{}.ended(0, schema.Missed, byRun), over: true, next: 1},
		{name: "cancelled", id: theRun, spec: run, marks: schema.Marks{Cancelled: &schema.Cancel{At: begin}}, over: true, next: 1},
		{name: "moved", id: theRun, spec: run, marks: schema.Marks{MovedTo: retry}, over: true, next: 1},
		{name: "a reschedule that is named", id: retry, spec: moving, marks: schema.Marks{MovedTo: retry}, next: 1},
		{name: "a reschedule not yet named", id: retry, spec: moving, unnamed: true, next: 1},
		{
			name: "given up before it started", id: theRun, spec: run,
			attempts: rows{}.ended(1, schema.Lost, byRun, func(r *schema.Record) { r.Unstarted = true }), next: 1,
		},
		// Its writer may be about to name it still: it stays open until the run ends.
		{name: "a reschedule while another is named", id: retry, spec: moving, marks: schema.Marks{MovedTo: theRun}, unnamed: true, next: 1},
		{name: "a watch for the run", id: retry, spec: watch(theRun), next: 1},
		{name: "a watch for the run, which was moved since", id: retry, spec: watch(theRun), marks: schema.Marks{MovedTo: moved}, over: true, next: 1},
		{name: "a watch for a reschedule that was never named", id: retry, spec: watch(moved), unnamed: true, next: 1},
		{name: "a watch for a reschedule that is named", id: retry, spec: watch(moved), marks: schema.Marks{MovedTo: moved}, next: 1},
		{
			name: "a watch for a reschedule, the run done", id: retry, spec: watch(moved),
			attempts: rows{}.ended(1, schema.Succeeded, byRun), over: true, next: 1,
		},
		{name: "a job's run succeeded", id: theRun, spec: ofJob, attempts: rows{}.ended(1, schema.Succeeded, byRun), over: true, repeat: 1, next: 1},
		{name: "a job's run missed", id: theRun, spec: ofJob, attempts: rows{}.ended(0, schema.Missed, byRun), over: true, next: 1, told: true},
		{name: "a job's run handed on", id: theRun, spec: ofJob, attempts: rows{}.ended(0, schema.Replaced, byRun), over: true, next: 1},
		{
			name: "a job's run failed, its retry under way", id: theRun, spec: ofJob,
			attempts: rows{}.ended(1, schema.Failed, byRun, retried).under(2, "live"), over: true, live: true, next: 1,
		},
		{name: "a catch-up while its first run is done", id: retry, spec: catchUp, attempts: rows{}.ended(1, schema.Succeeded, byRun), next: 1},
		{name: "a catch-up while its first run is under way", id: retry, spec: catchUp, attempts: rows{}.under(1, "live"), next: 1},
		{name: "a catch-up whose first run is missed", id: retry, spec: catchUp, attempts: rows{}.ended(0, schema.Missed, byRun), next: 1},
		{name: "a catch-up, done", id: retry, spec: catchUp, attempts: rows{}.ended(0, schema.Replaced, byRetry), over: true, next: 1},
		{name: "put off", id: theRun, spec: run, attempts: rows{}.ended(0, schema.Replaced, byRun, putOff(retry)), over: true, next: 1, awaited: retry},
		{name: "another entry put off", id: theRun, spec: run, attempts: rows{}.ended(0, schema.Replaced, byRetry, putOff(moved)), next: 1, awaited: moved},
		{name: "put off to an earlier one", id: moved, spec: watch(theRun), attempts: rows{}.ended(0, schema.Replaced, byRun, putOff(retry)), next: 1},
		{name: "put off to this one", id: retry, spec: watch(theRun), attempts: rows{}.ended(0, schema.Replaced, byRun, putOff(retry)), next: 1},
		{
			name: "put off twice", id: theRun, spec: run, next: 1, awaited: moved,
			attempts: rows{}.ended(0, schema.Replaced, byWatch, putOff(retry)).ended(0, schema.Replaced, byRetry, putOff(moved)),
		},
		{
			name: "put off, and that handed on", id: theRun, spec: run, next: 1,
			attempts: rows{}.ended(0, schema.Replaced, byWatch, putOff(retry)).ended(0, schema.Replaced, byRetry),
		},
		{name: "given up before it started", id: theRun, spec: run, attempts: rows{}.ended(1, schema.Lost, byRun, unstarted), next: 1},
		{
			name: "stopped for critical runs", id: theRun, spec: run, next: 1, stopped: 2,
			attempts: rows{}.ended(1, schema.Lost, byRun, unstarted, stopped).ended(1, schema.Lost, byRun, unstarted, stopped).ended(1, schema.Lost, byRun, unstarted),
		},
		{name: "handed on to a watch", id: theRun, spec: run, attempts: rows{}.ended(0, schema.Replaced, byRetry, func(r *schema.Record) { r.To = moved }), next: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := schema.Entry{ID: c.id, Spec: c.spec}
			for _, attempts := range orders(c.attempts) {
				got := schema.Judge(&e, c.marks, attempts, live)
				repeat := 0
				if got.Repeat != nil {
					repeat = got.Repeat.Number
				}
				if got.Over != c.over || (got.Repeat != nil && repeat == 0) != c.told || repeat != c.repeat || got.Unnamed != c.unnamed || got.Live != c.live ||
					len(got.Dead) != c.dead || !got.Over && got.Next != c.next || got.Awaited != c.awaited || got.Preempted != c.stopped {
					t.Errorf("Judge = %+v (repeat %d), want over %v, repeat %d, unnamed %v, live %v, %d dead, next %d, awaited %s, stopped %d times",
						got, repeat, c.over, c.repeat, c.unnamed, c.live, c.dead, c.next, c.awaited, c.stopped)
				}
			}
		})
	}
}

// A cancel whose run ended only when the session of its attempt fell, or when that was given up, has
// consequences that nobody else knows of.
func TestEndByCancel(t *testing.T) {
	cancelled := schema.Marks{Cancelled: &schema.Cancel{At: begin.Add(time.Minute)}}
	byRun := func(r *schema.Record) { r.Entry = theRun }
	unstarted := func(r *schema.Record) { r.Entry, r.Unstarted = theRun, true }
	for _, c := range []struct {
		name     string
		spec     schema.Spec
		marks    schema.Marks
		attempts rows
		want     bool
	}{
		{name: "nothing was under way", marks: cancelled},
		{name: "its session fell", marks: cancelled, attempts: rows{}.under(1, "dead"), want: true},
		{name: "it is under way", marks: cancelled, attempts: rows{}.under(1, "live")},
		{name: "it was given up", marks: cancelled, attempts: rows{}.ended(1, schema.Lost, unstarted), want: true},
		{name: "its cancel is recorded", marks: cancelled, attempts: rows{}.under(1, "dead").ended(2, schema.Cancelled, byRun)},
		{name: "it was not cancelled", attempts: rows{}.under(1, "dead")},
		{name: "a step: its workflow looks after it", spec: schema.Spec{Step: new(schema.Step)}, marks: cancelled, attempts: rows{}.under(1, "dead")},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := schema.NewEntry(theRun, c.spec, nil, begin)
			if err != nil {
				t.Fatal(err)
			}
			live := func(s schema.SessionRef) bool { return s.ID == "live" }
			st := schema.Judge(&e, c.marks, c.attempts, live)
			st.EndByCancel(&e, c.marks, c.attempts)
			if got := st.Repeat != nil; got != c.want {
				t.Fatalf("to be repeated: %v, want %v", got, c.want)
			}
			if c.want && (st.Repeat.Record.Outcome != schema.Cancelled || !st.Repeat.Record.Announce || !st.Repeat.Record.Finished.Equal(cancelled.Cancelled.At)) {
				t.Errorf("to be repeated: %+v", st.Repeat.Record)
			}
		})
	}
}
