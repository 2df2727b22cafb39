package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an Engine on a store in memory.
type world struct {
	*bucketertest.World
	e *engine.Engine
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: 4})}
		w.open()
		f(t, w)
	})
}

// open makes the Engine anew, as a process that has just started.
func (w *world) open() {
	w.T.Helper()
	var err error
	if w.e, err = engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w}); err != nil {
		w.T.Fatal(err)
	}
	if err := w.e.Refresh(context.Background()); err != nil {
		w.T.Fatal(err)
	}
}

// on makes a job that runs on an event.
func (w *world) on(name string, on schema.EventTrigger, payload string) schema.Job {
	w.T.Helper()
	spec := schema.JobSpec{Tenant: "t", Name: name, On: &on, Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}}
	if payload != "" {
		spec.Payload = json.RawMessage(payload)
	}
	job, _, err := w.e.CreateJob(context.Background(), spec, "", "")
	if err != nil {
		w.T.Fatalf("CreateJob(%s) = %v", name, err)
	}
	return job
}

// publish publishes an event, and returns its entry.
func (w *world) publish(name, body string) schema.Entry {
	w.T.Helper()
	r, err := w.e.Publish(context.Background(), "t", name, json.RawMessage(body), "", "")
	if err != nil {
		w.T.Fatalf("Publish(%s) = %v", name, err)
	}
	e, ok := w.Row(r.Run)
	if !ok {
		w.T.Fatalf("event %s is not there", r.Run)
	}
	return e
}

// plan plans an event, again until that succeeds.
func (w *world) plan(e *schema.Entry) {
	w.T.Helper()
	var err error
	for range 50 {
		if err = w.e.PlanEvent(context.Background(), e); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	w.T.Fatalf("the event cannot be planned: %v", err)
}

// runsOf returns the runs of an event by the names of their jobs.
func (w *world) runsOf(e *schema.Entry) map[string][]runs.Run {
	w.T.Helper()
	by := make(map[string][]runs.Run)
	for from := 0; ; {
		list, more, err := w.e.RunsOf(context.Background(), "t", e.ID, from, 7)
		if err != nil {
			w.T.Fatalf("RunsOf = %v", err)
		}
		for _, r := range list {
			by[r.Entry.Spec.JobName] = append(by[r.Entry.Spec.JobName], r)
		}
		if from += 7; !more {
			return by
		}
	}
}

func TestAnEventStartsWhatIsSubscribed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.on("plain", schema.EventTrigger{Event: "file.uploaded"}, `{"own":true}`)
		w.on("filtered", schema.EventTrigger{Event: "file.uploaded", Filter: "event.region == 'eu'"}, "")
		w.on("other-region", schema.EventTrigger{Event: "file.uploaded", Filter: "event.region == 'us'"}, "")
		w.on("faulty", schema.EventTrigger{Event: "file.uploaded", Filter: "event.missing.deep == 1"}, "")
		w.on("delayed", schema.EventTrigger{Event: "file.uploaded", Delay: schema.Duration(time.Hour)}, "")
		w.on("other-event", schema.EventTrigger{Event: "file.removed"}, "")
		paused, cancelled, moved := w.on("paused", schema.EventTrigger{Event: "file.uploaded"}, ""), w.on("cancelled", schema.EventTrigger{Event: "file.uploaded"}, ""), w.on("moved", schema.EventTrigger{Event: "file.uploaded"}, "")
		ctx := t.Context()
		if _, err := w.e.PauseJob(ctx, "t", paused.ID, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.e.CancelJob(ctx, "t", cancelled.ID, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.e.ChangeJob(ctx, "t", moved.ID, 0, func(s *schema.JobSpec) error {
			s.On = &schema.EventTrigger{Event: "file.removed"}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		const body = `{"region":"eu"}`
		e := w.publish("file.uploaded", body)
		if hinted := w.Hinted(); !slices.ContainsFunc(hinted, func(h schema.Entry) bool { return h.ID == e.ID }) {
			t.Error("the shard's owner was not told of the event")
		}
		w.plan(&e)
		got := w.runsOf(&e)
		for _, name := range []string{"plain", "filtered", "delayed"} {
			if len(got[name]) != 1 {
				t.Errorf("job %s has %d runs, want one", name, len(got[name]))
				continue
			}
			r := got[name][0].Entry
			want := schema.Event{Name: "file.uploaded", ID: e.ID, Depth: 1}
			if r.Spec.Trigger != schema.TriggerEvent || r.Spec.Event == nil || *r.Spec.Event != want || string(r.Payload) != body {
				t.Errorf("run of %s = %+v with %s, want one of the event %+v with its body", name, r.Spec, r.Payload, want)
			}
			wait := time.Duration(0)
			if name == "delayed" {
				wait = time.Hour
			}
			if late := r.Due().Sub(e.Due()) - wait; late < 0 || late > time.Second {
				t.Errorf("run of %s is due %v after the event", name, late+wait)
			}
		}
		if len(got) != 3 {
			t.Errorf("runs of %d jobs, want 3: %v", len(got), got)
		}
		time.Sleep(time.Millisecond)
		null := w.publish("file.uploaded", "null")
		w.plan(&null)
		if r := w.runsOf(&null)["plain"]; len(r) != 1 || string(r[0].Entry.Payload) != `{"own":true}` {
			t.Errorf("the run of an event without a body = %+v, want the job's payload", r)
		}
		list, next, err := w.e.Events(ctx, runs.Window{Tenant: "t", From: e.Due().Add(-time.Minute), To: time.Now().Add(time.Minute)}, "file.uploaded", runs.Position{}, 10)
		if err != nil || next != nil || len(list) != 2 || list[0].ID != e.ID {
			t.Errorf("Events = %v, %v, %v", list, next, err)
		}
		if _, _, err := w.e.RunsOf(ctx, "other", e.ID, 0, 1); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("RunsOf by another tenant = %v", err)
		}
	})
}

func TestABodyThatDoesNotFitStartsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		task := schema.Task{
			Tenant: "t", Name: "strict", Work: schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, PayloadSchema: []byte(`{"type":"object","required":["n"]}`),
			UpdatedAt: time.Now().UTC(), CreatedAt: time.Now().UTC(),
		}
		if err := w.Counts.PutTask(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		spec := schema.JobSpec{Tenant: "t", Name: "j", On: &schema.EventTrigger{Event: "e"}, Task: "strict", Payload: json.RawMessage(`{"n":1}`)}
		if _, _, err := w.e.CreateJob(t.Context(), spec, "", ""); err != nil {
			t.Fatal(err)
		}
		for body, want := range map[string]int{`{"n":2}`: 1, `{"m":2}`: 0, `null`: 1} {
			e := w.publish("e", body)
			w.plan(&e)
			if got := len(w.runsOf(&e)["j"]); got != want {
				t.Errorf("body %s: %d runs, want %d", body, got, want)
			}
		}
	})
}

// Whatever call of the store fails, is torn, comes late or loses its answer, each job runs once.
func TestFaultsAtEveryCallOfPlanning(t *testing.T) {
	const jobs = 5
	for _, f := range []struct {
		name string
		schematest.Fault
	}{
		{"fails", schematest.Fault{Fail: true}},
		{"loses its answer", schematest.Fault{Lose: true}},
		{"is torn", schematest.Fault{Tear: true}},
		{"is done late", schematest.Fault{Late: time.Minute}},
	} {
		for n := 1; ; n++ {
			reached := false
			inWorld(t, func(t *testing.T, w *world) {
				for i := range jobs {
					w.on(fmt.Sprint("j", i), schema.EventTrigger{Event: "e"}, "")
				}
				e := w.publish("e", `1`)
				var calls atomic.Int64
				w.Befall(func(context.Context, string) (none schematest.Fault) {
					if calls.Add(1) == int64(n) {
						return f.Fault
					}
					return none
				})
				w.plan(&e)
				reached = calls.Load() >= int64(n)
				time.Sleep(2 * time.Minute) // what comes late has come
				w.Befall(func(context.Context, string) (none schematest.Fault) { return none })
				w.open()
				w.plan(&e) // by another owner
				got := w.runsOf(&e)
				for i := range jobs {
					if k := len(got[fmt.Sprint("j", i)]); k != 1 {
						t.Errorf("call %d %s: %d runs of job %d, want one", n, f.name, k, i)
					}
				}
				starts := 0
				for _, row := range w.Entries(10 * time.Minute) {
					if row.Spec.Trigger == schema.TriggerEvent && row.Spec.Kind == schema.KindRun {
						starts++
					}
				}
				if starts != jobs {
					t.Errorf("call %d %s: %d rows of runs, want %d", n, f.name, starts, jobs)
				}
			})
			if !reached {
				if n < 6 {
					t.Fatalf("only %d calls", n)
				}
				break
			}
		}
	}
}

// Pages are planned once, whatever becomes of the jobs between two owners.
func TestASecondOwnerPlansTheSame(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const jobs = 1100 // three pages
		var all []schema.Job
		for i := range jobs {
			all = append(all, w.on(fmt.Sprint("j", i), schema.EventTrigger{Event: "e", Filter: "event.n > 0"}, ""))
		}
		e := w.publish("e", `{"n":1}`)
		var planned atomic.Int64
		w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
			if op == "PutEntries" {
				f.Fail = planned.Add(1) > 3
			}
			return f
		})
		if err := w.e.PlanEvent(t.Context(), &e); err == nil {
			t.Fatal("the first owner planned everything")
		}
		w.Befall(func(context.Context, string) (none schematest.Fault) { return none })
		w.open()
		// Jobs of a page that was decided do not want the event any more, and others come.
		for _, job := range all[:3] {
			if _, err := w.e.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error { s.On.Filter = "event.n > 1"; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		w.on("late", schema.EventTrigger{Event: "e"}, "")
		w.plan(&e)
		w.plan(&e)
		runs := 0
		for name, list := range w.runsOf(&e) {
			if runs += len(list); len(list) != 1 || name == "late" {
				t.Errorf("job %s has %d runs", name, len(list))
			}
		}
		if runs < jobs-3 || runs > jobs {
			t.Errorf("%d runs, want one of each of the %d jobs", runs, jobs)
		}
	})
}

func TestKeysOfEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		first, err := w.e.Publish(ctx, "t", "e", json.RawMessage(`1`), "k", "h")
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.e.Publish(ctx, "t", "e", json.RawMessage(`1`), "k", "h")
		if err != nil || again.Run != first.Run || !again.Existing {
			t.Errorf("again = %+v, %v", again, err)
		}
		if _, err := w.e.Publish(ctx, "t", "e", json.RawMessage(`2`), "k", "other"); !errors.Is(err, bucketer.ErrKeyReused) {
			t.Errorf("with another body = %v", err)
		}
		if other, err := w.e.Publish(ctx, "t", "f", json.RawMessage(`1`), "k", "h"); err != nil || other.Run == first.Run {
			t.Errorf("of another name = %+v, %v", other, err)
		}
	})
}

// flow makes a workflow of JSON, and begins a run of it.
func (w *world) flow(name, definition, payload string) schema.RunID {
	w.T.Helper()
	d, err := workflow.Decode([]byte(definition))
	if err != nil {
		w.T.Fatal(err)
	}
	if _, faults := workflow.Compile(d); len(faults) > 0 {
		w.T.Fatalf("faults: %+v", faults)
	}
	stored, err := orchestration.NewJobWorkflow(d)
	if err != nil {
		w.T.Fatal(err)
	}
	job, _, err := w.e.PutJob(context.Background(), "t", name, 0, schema.JobSpec{Workflow: stored})
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := w.e.TriggerJob(context.Background(), "t", job.ID, json.RawMessage(payload), "", "")
	if err != nil {
		w.T.Fatal(err)
	}
	return r.Run
}

// advance advances a workflow run, until it is over or waits for something far away.
func (w *world) advance(run schema.RunID) *orchestration.Turn {
	w.T.Helper()
	for range 50 {
		t := &orchestration.Turn{Run: run}
		w.e.Advance(context.Background(), []*orchestration.Turn{t}, 100)
		switch {
		case t.Err != nil:
			time.Sleep(time.Second)
		case t.Over, t.Wake.After(time.Now().Add(time.Minute)):
			return t
		default:
			time.Sleep(time.Until(t.Wake))
		}
	}
	w.T.Fatal("the run neither ends nor waits")
	return nil
}

func TestStepsHearOfEvents(t *testing.T) {
	const definition = `{"steps":[
		{"name":"approve","wait":{"event":"approved","filter":"event.day == input.day","deadline":"1h"}},
		{"name":"child","after":["approve"],"wait":{"for":"1ms"},"if":"steps.approve.output.by == 'me'"}]}`
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		mine, other := w.flow("a", definition, `{"day":"mon"}`), w.flow("b", definition, `{"day":"tue"}`)
		for _, run := range []schema.RunID{mine, other} {
			if t1 := w.advance(run); t1.Over || !t1.Idle {
				t.Fatalf("it does not wait: %+v", t1)
			}
		}
		e := w.publish("approved", `{"day":"mon","by":"me"}`)
		w.Hinted()
		w.plan(&e)
		w.plan(&e)
		woken := w.Hinted()
		if !slices.ContainsFunc(woken, func(h schema.Entry) bool { return h.Spec.Kind == schema.KindWatch && h.Run() == mine }) ||
			slices.ContainsFunc(woken, func(h schema.Entry) bool { return h.Run() == other }) {
			t.Errorf("woken: %s, want the run of monday alone", bucketertest.Describe(woken))
		}
		if end := w.advance(mine); !end.Over {
			t.Errorf("the run of monday is not over: %+v", end)
		}
		if r, err := w.e.Run(ctx, "t", mine); err != nil || r.State != schema.StateSucceeded {
			t.Errorf("run = %s, %v", r.State, err)
		}
		for run, want := range map[schema.RunID]schema.EntryID{mine: e.Run(), other: {}} {
			r, err := w.e.Run(ctx, "t", run)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := w.e.View(ctx, &r); err != nil || v.Steps[0].Event != want {
				t.Errorf("the step of %s heard %s, %v; want %s", run, v.Steps[0].Event, err, want)
			}
		}
		if end := w.advance(other); end.Over {
			t.Error("the run of tuesday is over")
		}
		// A second event of monday changes nothing.
		again := w.publish("approved", `{"day":"mon","by":"other"}`)
		w.plan(&again)
		if out, err := w.e.Run(ctx, "t", schema.MakeStepID(mine, 0, 0)); err != nil || len(out.Attempts) != 1 || !strings.Contains(out.Attempts[0].Record.Output, `"me"`) {
			t.Errorf("the step = %+v, %v; want one attempt with the body of the first event", out.Attempts, err)
		}
		// The deadline of the other passes; an event that comes later is too late.
		time.Sleep(2 * time.Hour)
		if end := w.advance(other); !end.Over {
			t.Error("the run of tuesday goes on after its step's deadline")
		}
		late := w.publish("approved", `{"day":"tue","by":"me"}`)
		w.plan(&late)
		if r, err := w.e.Run(ctx, "t", other); err != nil || r.State != schema.StateFailed {
			t.Errorf("run = %s, %v; want failed", r.State, err)
		}
		if ids, err := w.Counts.Subscribers(ctx, "t", "approved", schema.EntryID{}, 10); err != nil || len(ids) != 0 {
			t.Errorf("subscribers left: %v, %v", ids, err)
		}
	})
}

// Whatever call of the store fails while a step is told of an event, one of event and deadline ends it.
func TestFaultsWhileAStepHears(t *testing.T) {
	const definition = `{"steps":[{"name":"w","wait":{"event":"e","deadline":"2s"}}, {"name":"x","after":["w"],"wait":{"for":"1ms"},"if":"steps.w.output == 7"}]}`
	for _, f := range []struct {
		name string
		schematest.Fault
	}{
		{"fails", schematest.Fault{Fail: true}},
		{"loses its answer", schematest.Fault{Lose: true}},
		{"is done late", schematest.Fault{Late: 5 * time.Second}},
	} {
		for n := 1; ; n++ {
			reached := false
			inWorld(t, func(t *testing.T, w *world) {
				run := w.flow("a", definition, `{}`)
				turn := &orchestration.Turn{Run: run}
				w.e.Advance(t.Context(), []*orchestration.Turn{turn}, 100)
				e := w.publish("e", `7`)
				var calls atomic.Int64
				w.Befall(func(context.Context, string) (none schematest.Fault) {
					if calls.Add(1) == int64(n) {
						return f.Fault
					}
					return none
				})
				w.plan(&e)
				reached = calls.Load() >= int64(n)
				w.Befall(func(context.Context, string) (none schematest.Fault) { return none })
				time.Sleep(10 * time.Second)
				w.plan(&e)
				if end := w.advance(run); !end.Over {
					t.Fatalf("call %d %s: the run is not over", n, f.name)
				}
				r, err := w.e.Run(t.Context(), "t", run)
				if err != nil || r.State != schema.StateSucceeded {
					t.Errorf("call %d %s: the run is %s, %v; the event had come in time", n, f.name, r.State, err)
				}
			})
			if !reached {
				break
			}
		}
	}
}

// A node that is stopped between the decision of a page and its runs writes them too late for their
// sweep. A late entry of each starts it.
func TestAStopBetweenADecisionAndItsRuns(t *testing.T) {
	const stopped = 20 * time.Second
	for name, resumes := range map[string]bool{"the node goes on": true, "another owner plans it": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				for i := range 3 {
					w.on(fmt.Sprint("j", i), schema.EventTrigger{Event: "e"}, "")
				}
				e := w.publish("e", `1`)
				var rows atomic.Int64
				w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
					if op == "PutEntries" && rows.Add(1) == 1 {
						f.Delay, f.Fail = stopped, !resumes
					}
					return f
				})
				ctx, cancel := context.WithTimeout(t.Context(), 2*stopped)
				defer cancel()
				if err := w.e.PlanEvent(ctx, &e); (err == nil) != resumes {
					t.Fatalf("PlanEvent = %v", err)
				}
				if !resumes {
					w.open()
					w.plan(&e)
				}
				for job, list := range w.runsOf(&e) {
					late := 0
					for _, row := range w.Entries(10 * time.Minute) {
						if row.Run() == list[0].ID && row.Spec.Kind == schema.KindLate {
							late++
						}
					}
					if len(list) != 1 || late == 0 {
						t.Errorf("%s: %d runs, %d late entries, want one run that is found", job, len(list), late)
					}
				}
			})
		})
	}
}
