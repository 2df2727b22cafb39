package events_test

import (
	"slices"
	"testing"

	"carillon.dev/carillon/schema"
)

// Who would hear of an event: jobs that are active, and steps that wait, of runs that go on.
func TestHearersOfAnEvent(t *testing.T) {
	const definition = `{"steps":[
		{"name":"approve","wait":{"event":"approved","filter":"event.day == input.day"}},
		{"name":"child","after":["approve"],"wait":{"for":"1ms"}}]}`
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.on("listener", schema.EventTrigger{Event: "approved"}, "")
		w.on("other", schema.EventTrigger{Event: "rejected"}, "")
		paused := w.on("paused", schema.EventTrigger{Event: "approved"}, "")
		if _, err := w.e.PauseJob(ctx, "t", paused.ID, 0); err != nil {
			t.Fatal(err)
		}
		flows := map[string]schema.RunID{}
		for _, name := range []string{"a", "b", "cancelled"} {
			flows[name] = w.flow(name, definition, `{"day":"`+name+`"}`)
			if turn := w.advance(flows[name]); turn.Over {
				t.Fatalf("%s does not wait: %+v", name, turn)
			}
		}
		if _, err := w.e.Cancel(ctx, "t", flows["cancelled"], "me"); err != nil {
			t.Fatal(err)
		}
		if turn := w.advance(flows["cancelled"]); !turn.Over {
			t.Fatalf("the run that was cancelled is not over: %+v", turn)
		}
		heard := func(tenant string, limit int) (jobs, steps []string, more bool) {
			t.Helper()
			found, err := w.e.Hearers(ctx, tenant, "approved", limit)
			if err != nil {
				t.Fatalf("Hearers = %v", err)
			}
			for i := range found.Jobs {
				jobs = append(jobs, found.Jobs[i].Current.Spec.Name)
			}
			for i := range found.Steps {
				if s := found.Steps[i].Step.Entry.Spec.Step; s.Name != "approve" || s.Workflow != flows[found.Steps[i].Workflow] {
					t.Errorf("step %+v is not the one of %s that waits", s, found.Steps[i].Workflow)
				}
				steps = append(steps, found.Steps[i].Workflow)
			}
			slices.Sort(steps)
			return jobs, steps, found.More
		}
		if jobs, steps, more := heard("t", 100); !slices.Equal(jobs, []string{"listener"}) || !slices.Equal(steps, []string{"a", "b"}) || more {
			t.Errorf("hearers = %q and %q, more %v; want the listener and the steps of a and b", jobs, steps, more)
		}
		if jobs, steps, more := heard("t", 1); len(jobs)+len(steps) > 1 || !more {
			t.Errorf("of one subscription: %q and %q, more %v; want at most one, and that there are more", jobs, steps, more)
		}
		if jobs, steps, _ := heard("u", 100); len(jobs)+len(steps) != 0 {
			t.Errorf("hearers of another tenant's event = %q and %q, want none", jobs, steps)
		}
		e := w.publish("approved", `{"day":"a"}`)
		w.plan(&e)
		if _, steps, _ := heard("t", 100); !slices.Equal(steps, []string{"b"}) {
			t.Errorf("after the event that a waited for: %q, want b alone", steps)
		}
	})
}
