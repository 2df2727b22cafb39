package orchestration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A table of graphs: which steps are called, in which order, with which payloads, and how the run
// ends.
func TestWorkflows(t *testing.T) {
	for _, tt := range []struct {
		name       string
		definition string
		payload    string
		answers    map[string]answer
		called     []string // in order; nil: not compared
		state      schema.State
		steps      map[string]string
	}{
		{
			name:       "a chain hands data on",
			definition: steps(work("a", ""), work("b", `,"after":["a"],"payload":{"x":{"$from":"a","pointer":"/v"}}`), work("c", `,"after":["b"],"payload":{"d":{"$input":"/date"}}`)),
			payload:    `{"date":"today"}`, answers: map[string]answer{"a": {output: `{"v":7}`}},
			called: []string{"a ", `b {"x":7}`, `c {"d":"today"}`}, state: schema.StateSucceeded,
		},
		{
			name:       "a fan-out and a join that sees all outputs",
			definition: steps(work("list", ""), work("each", `,"after":["list"],"for_each":{"from":"list","pointer":"/f"},"payload":{"i":{"$item":""}}`), work("sum", `,"after":["each"],"payload":{"$from":"each"}`)),
			answers:    map[string]answer{"list": {output: `{"f":[1,2,3]}`}, "each": {output: "5"}},
			called:     []string{"list ", `each {"i":1}`, `each {"i":2}`, `each {"i":3}`, "sum [5,5,5]"}, state: schema.StateSucceeded,
		},
		{
			name:       "no items: the step has succeeded",
			definition: steps(work("each", `,"for_each":{"items":[]}`), work("then", `,"after":["each"]`)),
			called:     []string{"then "}, state: schema.StateSucceeded,
		},
		{
			name:       "a few items at once",
			definition: steps(work("each", `,"for_each":{"items":[1,2,3,4,5],"max_concurrent":2},"payload":{"$item":""}`)),
			called:     []string{"each 1", "each 2", "each 3", "each 4", "each 5"}, state: schema.StateSucceeded,
		},
		{
			name:       "a failure: what follows is skipped, its handler runs, and the run has failed",
			definition: steps(work("a", ""), work("b", `,"after":["a"]`), work("c", `,"after":["b"]`), work("alert", `,"after":["c"],"when":"any_failed"`)),
			answers:    map[string]answer{"a": {fails: true}},
			called:     []string{"a ", "alert "}, state: schema.StateFailed,
			steps: map[string]string{"a": "failed", "b": "skipped", "c": "skipped", "alert": "succeeded"},
		},
		{
			name:       "nothing fails: the handler is skipped",
			definition: steps(work("a", ""), work("alert", `,"after":["a"],"when":"any_failed"`)),
			called:     []string{"a "}, state: schema.StateSucceeded,
			steps: map[string]string{"a": "succeeded", "alert": "skipped"},
		},
		{
			name:       "a step that is skipped by its condition counts as succeeded",
			definition: steps(work("a", `,"if":"input.n > 1"`), work("b", `,"after":["a"]`)),
			payload:    `{"n":1}`, called: []string{"b "}, state: schema.StateSucceeded,
			steps: map[string]string{"a": "skipped", "b": "succeeded"},
		},
		{
			name:       "a reference to what is not there fails the step",
			definition: steps(work("a", ""), work("b", `,"after":["a"],"payload":{"$from":"a","pointer":"/none"}`)),
			answers:    map[string]answer{"a": {output: `{"v":7}`}},
			called:     []string{"a "}, state: schema.StateFailed,
			steps: map[string]string{"a": "succeeded", "b": "failed"},
		},
		{
			name:       "text that is no JSON is a string",
			definition: steps(work("a", ""), work("b", `,"after":["a"],"payload":{"$from":"a"}`)),
			answers:    map[string]answer{"a": {output: "done, 3 files"}},
			called:     []string{"a ", `b "done, 3 files"`}, state: schema.StateSucceeded,
		},
		{
			name:       "a wait for a time",
			definition: steps(`{"name":"wait","wait":{"for":"90s"}}`, work("b", `,"after":["wait"]`)),
			called:     []string{"b "}, state: schema.StateSucceeded,
		},
		{
			name:       "any_succeeded does not wait for the others",
			definition: steps(work("a", ""), work("b", ""), work("c", `,"after":["a","b"],"when":"any_succeeded"`)),
			answers:    map[string]answer{"b": {fails: true}},
			state:      schema.StateFailed, steps: map[string]string{"a": "succeeded", "b": "failed", "c": "succeeded"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				maps.Copy(w.answers, tt.answers)
				run := w.trigger(w.workflow("flow", tt.definition), tt.payload)
				if got := w.drive(run); !got.Over {
					t.Fatalf("the run is not over: %+v", got)
				}
				if got := w.state(run); got != tt.state {
					t.Errorf("state = %s, want %s", got, tt.state)
				}
				if tt.called != nil && !slices.Equal(w.called, tt.called) {
					t.Errorf("called %q, want %q", w.called, tt.called)
				}
				if got := w.view(run); tt.steps != nil && !maps.Equal(got, tt.steps) {
					t.Errorf("steps = %v, want %v", got, tt.steps)
				}
			})
		})
	}
}

// Whatever call of the store fails, is torn or loses its answer, and wherever the owner is replaced
// by one that knows only the rows: each step is called once, and the run ends as without faults.
func TestFaultsAtEveryCall(t *testing.T) {
	const definition = `{"steps":[
		{"name":"a","http":{"url":"http://x.test/a"}},
		{"name":"each","after":["a"],"for_each":{"from":"a"},"http":{"url":"http://x.test/e"},"payload":{"$item":""}},
		{"name":"no","after":["a"],"if":"false","http":{"url":"http://x.test/n"}},
		{"name":"bad","after":["no"],"http":{"url":"http://x.test/b"}},
		{"name":"handler","after":["bad","each"],"when":"any_failed","http":{"url":"http://x.test/h"}},
		{"name":"last","after":["handler"],"when":"always","http":{"url":"http://x.test/l"}}]}`
	for _, f := range []struct {
		name string
		schematest.Fault
	}{
		{"fails", schematest.Fault{Fail: true}},
		{"loses its answer", schematest.Fault{Lose: true}},
		{"is torn", schematest.Fault{Tear: true}},
	} {
		t.Run(f.name, func(t *testing.T) {
			for n := 1; ; n++ {
				reached := false
				inWorld(t, func(t *testing.T, w *world) {
					w.answers["a"], w.answers["bad"] = answer{output: "[1,2]"}, answer{fails: true}
					run := w.trigger(w.workflow("flow", definition), "")
					var calls atomic.Int64
					w.Befall(func(context.Context, string) schematest.Fault {
						if calls.Add(1) == int64(n) {
							return f.Fault
						}
						return schematest.Fault{}
					})
					over := w.drive(run)
					reached = calls.Load() >= int64(n)
					w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
					if !over.Over || w.state(run) != schema.StateFailed {
						t.Errorf("call %d %s: state = %s, over %v", n, f.name, w.state(run), over.Over)
					}
					slices.Sort(w.called)
					want := []string{"a ", "bad ", "each 1", "each 2", "handler ", "last "}
					if !slices.Equal(w.called, want) {
						t.Errorf("call %d %s: called %q, want %q", n, f.name, w.called, want)
					}
				})
				if !reached {
					if n < 20 {
						t.Fatalf("only %d calls", n)
					}
					return
				}
			}
		})
	}
}

// A new owner knows only the rows. It goes on where the other one was, after each step.
func TestANewOwnerGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var all []string
		for i := range 8 {
			more := ""
			if i > 0 {
				more = fmt.Sprintf(`,"after":["s%d"]`, i-1)
			}
			all = append(all, work(fmt.Sprintf("s%d", i), more))
		}
		run := w.trigger(w.workflow("flow", steps(all...)), "")
		for range 20 {
			task := w.step(run)
			if task.Err != nil {
				t.Fatal(task.Err)
			}
			for _, e := range slices.Concat(task.Start, task.Inspect) {
				w.call(e)
			}
			w.open() // the next owner
			if task.Over {
				break
			}
		}
		if got := w.state(run); got != schema.StateSucceeded || len(w.called) != 8 {
			t.Errorf("state = %s after calls %q", got, w.called)
		}
	})
}

// A new owner looks at every step that is under way: its message may be lost.
func TestANewOwnerLooksAtWhatIsOpen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.trigger(w.workflow("flow", steps(work("a", ""), work("b", ""), `{"name":"wait","wait":{"for":"1h"}}`)), "")
		started := w.step(run).Start
		w.open()
		again := w.step(run)
		if len(again.Start) != 0 || len(again.Inspect) != 2 || again.Inspect[0].ID != started[0].ID || again.Inspect[1].ID != started[1].ID {
			t.Errorf("the next owner starts %v and inspects %v, want it to inspect %v", again.Start, again.Inspect, started)
		}
	})
}

// Two owners at once, each with its own knowledge, start the same runs.
func TestTwoOwnersStartTheSameRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.trigger(w.workflow("flow", steps(work("a", ""), work("b", ""), work("c", `,"after":["a","b"]`))), "")
		first := w.step(run)
		theirs := &Turn{Run: run}
		w.o.Advance(t.Context(), []*Turn{theirs}, 1000)
		if len(first.Start) != 2 || len(theirs.Start) != 0 || len(theirs.Inspect) != 2 {
			t.Fatalf("one starts %d, the other %d and inspects %d, want 2, 0 and 2", len(first.Start), len(theirs.Start), len(theirs.Inspect))
		}
		var ended []StepEnd
		for _, e := range first.Start {
			ended = append(ended, w.call(e)...)
		}
		one := w.step(run, ended...)
		two := &Turn{Run: run, State: theirs.State, Ended: ended}
		w.o.Advance(t.Context(), []*Turn{two}, 1000)
		if len(one.Start) != 1 || len(two.Start) != 0 || len(two.Inspect) != 1 || one.Start[0].ID != two.Inspect[0].ID {
			t.Errorf("the join: one starts %v, the other %v and inspects %v", one.Start, two.Start, two.Inspect)
		}
	})
}

func TestCancel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.answers["a"] = answer{hangs: true}
		run := w.trigger(w.workflow("flow", steps(work("a", ""), work("b", `,"after":["a"],"when":"all_done"`), work("tidy", `,"after":["b"],"when":"always"`))), "")
		w.drive(run)
		if _, err := w.runs.Cancel(t.Context(), "t", run, "me"); err != nil {
			t.Fatal(err)
		}
		if woken := w.Hinted(); !slices.ContainsFunc(woken, func(e schema.Entry) bool { return e.Spec.Kind == schema.KindWatch && e.Run() == run }) {
			t.Errorf("hinted %v, want a watch entry of the run", woken)
		}
		task := &Turn{Run: run, State: w.states[run], Cancelled: true}
		w.o.Advance(t.Context(), []*Turn{task}, 1000)
		if len(task.Start) != 0 || time.Until(task.Wake) > 5*time.Second {
			t.Errorf("just after the cancel: starts %v, looks again at %v; the step may be called yet", task.Start, task.Wake)
		}
		time.Sleep(time.Until(task.Wake))
		task = &Turn{Run: run, State: task.State, Cancelled: true}
		w.o.Advance(t.Context(), []*Turn{task}, 1000)
		if task.Err != nil || len(task.Start) != 1 || task.Start[0].Spec.Step.Name != "tidy" {
			t.Fatalf("after the cancel: %v, starts %v, want tidy", task.Err, task.Start)
		}
		w.states[run] = task.State
		if last := w.step(run, w.call(task.Start[0])...); !last.Over {
			t.Errorf("the run is not over: %+v", last)
		}
		if got := w.state(run); got != schema.StateCancelled {
			t.Errorf("state = %s", got)
		}
		if got := w.view(run); got["a"] != "cancelled" || got["b"] != "skipped" || got["tidy"] != "succeeded" {
			t.Errorf("steps = %v", got)
		}
	})
}

// The write of a step's row may be done after the workflow run has ended: the step never starts.
func TestARowThatComesLateNeverStarts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late := false
		w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
			if late && op == "PutEntries" {
				late, f.Late = false, time.Minute
			}
			return f
		})
		job := w.workflow("flow", steps(work("a", ""), work("b", `,"after":["a"]`)))
		run := w.trigger(job, "")
		begun := w.step(run)
		late = true
		if lost := w.step(run, w.call(begun.Start[0])...); lost.Err == nil {
			t.Fatal("the write of b's row did not fail")
		}
		if _, err := w.runs.Cancel(t.Context(), "t", run, "me"); err != nil {
			t.Fatal(err)
		}
		if last := w.drive(run); !last.Over {
			t.Fatalf("the run is not over: %+v", last)
		}
		time.Sleep(2 * time.Minute)
		if got := w.state(schema.MakeStepID(run, 1, 0)); got != schema.StateCancelled {
			t.Errorf("the run of b is %s, want cancelled", got)
		}
		if got := w.view(run); got["a"] != "succeeded" || got["b"] != "cancelled" {
			t.Errorf("steps = %v", got)
		}
	})
}

// The write of a run's beginning may be done after the run was cancelled: it has not begun.
func TestABeginningThatComesLateDoesNotCount(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.trigger(w.workflow("flow", steps(work("a", ""))), "")
		late := true
		w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
			if late && op == "PutAttempts" {
				late, f.Late = false, time.Minute
			}
			return f
		})
		if lost := w.step(run); lost.Err == nil {
			t.Fatal("the write of the beginning did not fail")
		}
		if _, err := w.runs.Cancel(t.Context(), "t", run, "me"); err != nil {
			t.Fatal(err)
		}
		if last := w.drive(run); !last.Over {
			t.Fatalf("the run is not over: %+v", last)
		}
		time.Sleep(2 * time.Minute)
		if got := w.state(run); got != schema.StateCancelled {
			t.Errorf("the run is %s, want cancelled", got)
		}
		if got := w.view(run); got["a"] != "skipped" {
			t.Errorf("steps = %v", got)
		}
	})
}

// A run begins on rows that are read again if that took long: what was changed meanwhile counts.
func TestABeginningOnOldRows(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile func(w *world, run schema.RunID, job schema.JobID) error
		again     bool // the first turn fails
		want      schema.State
	}{
		{"nothing changes", func(*world, schema.RunID, schema.JobID) error { return nil }, false, schema.StateSucceeded},
		{"the run is cancelled", func(w *world, run schema.RunID, _ schema.JobID) error {
			_, err := w.runs.Cancel(w.T.Context(), "t", run, "me")
			return err
		}, true, schema.StateCancelled},
		{"the workflow is deleted", func(w *world, _ schema.RunID, job schema.JobID) error {
			_, err := w.jobs.CancelJob(w.T.Context(), "t", job, 0)
			return err
		}, true, schema.StateCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.limited(schema.OnLimitQueue) // the lease of its limit is read between the rows and the beginning
				run := w.trigger(job, "")
				asks := true
				w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
					if asks && op == "Lease" {
						asks, f.Delay = false, 3*time.Second
						if err := tt.meanwhile(w, run, job.ID); err != nil {
							t.Error(err)
						}
					}
					return f
				})
				if first := w.step(run); (first.Err != nil) != tt.again {
					t.Errorf("the first turn says %v", first.Err)
				}
				delete(w.states, run) // what it started is found in the rows
				w.drive(run)
				if got := w.state(run); got != tt.want {
					t.Errorf("the run is %s, want %s", got, tt.want)
				}
				if began := len(w.called) > 0; began == tt.again {
					t.Errorf("called %q", w.called)
				}
			})
		})
	}
}

// What has passed its deadline fails, and is cancelled.
func TestDeadlines(t *testing.T) {
	for _, tt := range []struct{ name, definition, cause, shown string }{
		{"of a step", steps(work("a", `,"deadline":"1m"`)), `step "a" failed: its deadline has passed`, "failed"},
		{"of the run", `{"deadline":"1m","steps":[` + work("a", "") + `]}`, "the deadline of the run passed", "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.answers["a"] = answer{hangs: true}
				run := w.trigger(w.workflow("flow", tt.definition), "")
				for range 5 {
					task := w.step(run)
					if task.Over {
						break
					}
					time.Sleep(time.Until(task.Wake))
				}
				r, err := w.runs.Run(t.Context(), "t", run)
				if err != nil || r.State != schema.StateFailed {
					t.Fatalf("state = %s, %v", r.State, err)
				}
				if got := r.Attempts[len(r.Attempts)-1].Record.Error; !strings.Contains(got, tt.cause) {
					t.Errorf("error = %q, want %q in it", got, tt.cause)
				}
				if got := w.view(run)["a"]; got != tt.shown {
					t.Errorf("the step is shown as %s, want %s", got, tt.shown)
				}
				if after := time.Since(r.Entry.Due()); after < time.Minute || after > time.Minute+8*time.Second {
					t.Errorf("it failed %v after its time", after)
				}
			})
		})
	}
}

// A retry takes over what succeeded, with its outputs, and runs the rest again.
func TestRetryFromWhereItFailed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.answers["list"], w.answers["each"], w.answers["load"] = answer{output: "[1,2]"}, answer{output: `"x"`}, answer{fails: true}
		job := w.workflow("flow", steps(work("list", ""), work("each", `,"after":["list"],"for_each":{"from":"list"}`), work("load", `,"after":["each"],"payload":{"$from":"each"}`), work("end", `,"after":["load"]`)))
		run := w.trigger(job, `{"k":1}`)
		w.drive(run)
		if got := w.state(run); got != schema.StateFailed {
			t.Fatalf("state = %s", got)
		}
		w.called, w.answers["load"] = nil, answer{}
		again, err := w.runs.Retry(t.Context(), "t", run, "key")
		if err != nil {
			t.Fatal(err)
		}
		if same, err := w.runs.Retry(t.Context(), "t", run, "key"); err != nil || same.Run != again.Run || !same.Existing {
			t.Errorf("the retry again = %+v, %v", same, err)
		}
		w.drive(again.Run)
		if got := w.state(again.Run); got != schema.StateSucceeded {
			t.Errorf("state of the retry = %s, steps %v", got, w.view(again.Run))
		}
		if want := []string{`load ["x","x"]`, "end "}; !slices.Equal(w.called, want) {
			t.Errorf("called %q, want %q", w.called, want)
		}
		r, err := w.runs.Run(t.Context(), "t", again.Run)
		if err != nil || r.Entry.Spec.Origin != run || r.Entry.Spec.Trigger != schema.TriggerRetry || string(r.Entry.Payload) != `{"k":1}` {
			t.Errorf("the retry = %+v, %v", r.Entry.Spec, err)
		}
	})
}

func TestSkipByHand(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.answers["a"] = answer{hangs: true}
		flow := w.workflow("flow", steps(work("a", ""), work("b", `,"after":["a"]`), work("c", `,"after":["b"]`)))
		run := w.trigger(flow, "")
		if err := w.o.SkipStep(t.Context(), "t", run, "a"); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("before the run began: %v", err)
		}
		later, err := w.jobs.RunOf(&flow, schema.TriggerManual, time.Now().Add(time.Hour), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.core.WriteOne(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		if err := w.o.SkipStep(t.Context(), "t", later.ID, "a"); !errors.Is(err, ErrNotBegun) {
			t.Errorf("an hour before the run: %v", err)
		}
		w.drive(run)
		if err := w.o.SkipStep(t.Context(), "t", run, "none"); !errors.Is(err, ErrNoStep) {
			t.Errorf("no such step: %v", err)
		}
		for _, name := range []string{"b", "a"} { // one that waits, one that runs
			if err := w.o.SkipStep(t.Context(), "t", run, name); err != nil {
				t.Fatalf("skip %s: %v", name, err)
			}
		}
		for _, name := range []string{"b", "a"} { // twice is the same as once
			if got := w.view(run)[name]; got != "skipped" {
				t.Errorf("%s is shown as %s, want skipped", name, got)
			}
			if err := w.o.SkipStep(t.Context(), "t", run, name); err != nil {
				t.Errorf("skip %s again: %v", name, err)
			}
		}
		delete(w.states, run)
		if over := w.drive(run); !over.Over || w.state(run) != schema.StateSucceeded {
			t.Errorf("state = %s", w.state(run))
		}
		if want := []string{"c "}; !slices.Equal(w.called, want) {
			t.Errorf("called %q, want %q", w.called, want)
		}
		if err := w.o.SkipStep(t.Context(), "t", run, "c"); !errors.Is(err, bucketer.ErrFinished) {
			t.Errorf("after its end: %v", err)
		}
		if err := w.o.SkipStep(t.Context(), "t", run, "a"); err != nil {
			t.Errorf("what was skipped, after the end of the run: %v, want nil", err)
		}
	})
}

// A step may be a workflow. Its end is the step's.
func TestChildren(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.workflow("child", steps(work("x", `,"payload":{"$input":"/v"}`), work("y", `,"after":["x"]`)))
		run := w.trigger(w.workflow("flow", steps(work("a", ""), `{"name":"sub","workflow":"child","after":["a"],"payload":{"v":{"$from":"a"}}}`, work("z", `,"after":["sub"],"payload":{"$from":"sub","pointer":"/y/n"}`))), "")
		w.answers["a"], w.answers["x"], w.answers["y"] = answer{output: "3"}, answer{output: "4"}, answer{output: `{"n":5}`}
		w.drive(run)
		if want := []string{"a ", "x 3", "y ", "z 5"}; !slices.Equal(w.called, want) || w.state(run) != schema.StateSucceeded {
			t.Errorf("called %q, want %q; %s", w.called, want, w.state(run))
		}
		// What a child puts out is kept only up to a bound.
		w.answers["y"], w.called = answer{output: `"` + strings.Repeat("x", schema.MaxPayload) + `"`}, nil
		large := w.trigger(w.workflow("large", steps(`{"name":"sub","workflow":"child","payload":{"v":1}}`, work("z", `,"after":["sub"]`))), "")
		w.drive(large)
		if got := w.state(large); got != schema.StateFailed || slices.Contains(w.called, "z ") {
			t.Errorf("after a child with a large output: %s, called %d times", got, len(w.called))
		}
		w.workflow("loop", steps(`{"name":"again","workflow":"loop"}`))
		deep := w.trigger(w.workflow("loop", steps(`{"name":"again","workflow":"loop"}`)), "")
		if w.drive(deep); w.state(deep) != schema.StateFailed {
			t.Errorf("a workflow in itself is %s", w.state(deep))
		}
	})
}

// A run keeps the definition that it began with.
func TestADefinitionThatChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.trigger(w.workflow("flow", steps(work("a", ""), work("b", `,"after":["a"]`))), "")
		task := w.step(run)
		w.workflow("flow", steps(work("other", "")))
		w.open()
		for _, e := range task.Start {
			w.call(e)
		}
		w.drive(run)
		if want := []string{"a ", "b "}; !slices.Equal(w.called, want) {
			t.Errorf("called %q, want %q", w.called, want)
		}
	})
}

// Rows of a run outlive its retention where the run may last longer.
func TestRowsOfLongRunsStay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.trigger(w.workflow("flow", `{"deadline":"480h","steps":[`+work("a", "")+`,{"name":"wait","after":["a"],"wait":{"for":"240h"}},`+work("b", `,"after":["wait"]`)+`]}`), "")
		for range 12 { // a watch entry keeps the run's own rows, as the dispatcher makes them
			task := w.drive(run)
			if task.Over {
				break
			}
			time.Sleep(24 * time.Hour)
			delete(w.states, run)
			if r, err := w.runs.Run(t.Context(), "t", run); err == nil {
				if err := w.core.KeepRows(t.Context(), r.ID, nil, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if want := []string{"a ", "b "}; !slices.Equal(w.called, want) {
			t.Errorf("called %q, want %q", w.called, want)
		}
	})
}

// Of a fan-out whose entries are written in several batches, any may fail while later ones do not.
// The next owner writes what is missing, and each item is called once.
func TestATornFanOut(t *testing.T) {
	for _, f := range []schematest.Fault{{Fail: true}, {Lose: true}, {Tear: true}} {
		for batch := range 3 {
			inWorld(t, func(t *testing.T, w *world) {
				items := make([]string, 250)
				for i := range items {
					items[i] = fmt.Sprint(i)
				}
				definition := steps(work("each", fmt.Sprintf(`,"for_each":{"items":[%s]},"payload":{"$item":""}`, strings.Join(items, ","))), work("end", `,"after":["each"]`))
				run := w.trigger(w.workflow("flow", definition), "")
				var puts atomic.Int64
				w.Befall(func(_ context.Context, op string) schematest.Fault {
					if op != "PutEntries" {
						return schematest.Fault{}
					}
					if puts.Add(1) == int64(batch+2) { // the first one is the definition
						return f
					}
					return schematest.Fault{}
				})
				w.drive(run)
				if w.state(run) != schema.StateSucceeded || len(w.called) != 251 {
					t.Errorf("batch %d, %+v: state %s after %d calls", batch, f, w.state(run), len(w.called))
				}
			})
		}
	}
}

// Of two owners one may see a cancel after the other has ended the run. The success stands.
func TestASuccessStandsBesideACancel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.trigger(w.workflow("flow", steps(work("a", ""))), "")
		first := w.step(run)
		other := &Turn{Run: run}
		w.o.Advance(t.Context(), []*Turn{other}, 1000)
		ended := w.call(first.Start[0])
		late := &Turn{Run: run, State: other.State, Cancelled: true}
		if over := w.step(run, ended...); !over.Over {
			t.Fatalf("the run is not over: %+v", over)
		}
		time.Sleep(time.Minute)
		w.o.Advance(t.Context(), []*Turn{late}, 1000)
		if got := w.state(run); got != schema.StateSucceeded {
			t.Errorf("state = %s after %v", got, late.Err)
		}
	})
}

// A turn that fails between the record of a run's end and what follows from it is taken again.
func TestWhatFollowsFromAnEndIsNotLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.answers["a"] = answer{fails: true}
		run := w.trigger(w.workflow("flow", steps(work("a", ""))), "")
		w.BefallFirst(1, "PutDeadLetters", schematest.Fault{Fail: true})
		if over := w.drive(run); !over.Over {
			t.Fatalf("the run is not over: %+v", over)
		}
		if _, err := w.runs.DeadLetter(t.Context(), "t", run); err != nil {
			t.Errorf("the dead letter of the run: %v", err)
		}
	})
}
