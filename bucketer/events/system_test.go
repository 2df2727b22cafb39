package events_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// systemEvents returns the entries of events of the system that lie within some minutes, by name.
func (w *world) systemEvents() map[string][]schema.Entry {
	w.T.Helper()
	by := make(map[string][]schema.Entry)
	for _, e := range w.Entries(10 * time.Minute) {
		if e.Spec.Kind == schema.KindEvent && e.Spec.Of == e.ID && schema.IsSystemEvent(e.Spec.Event.Name) {
			by[e.Spec.Event.Name] = append(by[e.Spec.Event.Name], e)
		}
	}
	return by
}

// ends has a run of a tenant end with that record, and does what follows from it.
func (w *world) ends(spec schema.Spec, rec schema.Record, number int) {
	w.T.Helper()
	now := time.Now()
	e, err := schema.NewEntry(schema.MakeEntryID(now, 1, schema.RandomHash()), spec, nil, now.Add(time.Hour))
	if err != nil {
		w.T.Fatal(err)
	}
	rec.Entry, rec.Finished = e.ID, now.Add(time.Millisecond).UTC()
	rec.Announce = w.e.Announces(spec.Tenant)
	row := schema.Attempt{Run: e.ID, Number: number, Fence: 1, Record: &rec, Written: now.UnixMicro(), Expires: now.Add(time.Hour)}
	if err := w.e.Record(w.T.Context(), []schema.Attempt{row}); err != nil {
		w.T.Fatal(err)
	}
	for range 2 { // whoever finds the record does it again
		w.e.FollowUp(w.T.Context(), []bucketer.Finished{{Entry: e, Attempt: row}}, func(_ int, err error) {
			if err != nil {
				w.T.Errorf("FollowUp = %v", err)
			}
		})
	}
}

func TestEventsOfTheSystem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		work := &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}
		spec := schema.Spec{Tenant: "t", Nominal: time.Now(), Accepted: time.Now().UnixMicro(), Work: work, Labels: map[string]string{"team": "data"}}
		failed := schema.Record{Outcome: schema.Failed, Final: true, Error: "refused", Status: 400, Started: time.Now()}
		w.ends(spec, failed, 1)
		if got := w.systemEvents(); len(got) != 0 {
			t.Fatalf("nobody listens, and there are events: %v", got)
		}
		w.on("page", schema.EventTrigger{Event: schema.EventRunFailed, Filter: "event.labels.team == 'data'"}, "")
		w.on("other", schema.EventTrigger{Event: schema.EventRunFailed, Filter: "event.labels.team == 'web'"}, "")
		if err := w.e.RefreshListening(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.ends(spec, failed, 1)
		other := spec
		other.Tenant = "quiet"
		w.ends(other, failed, 1)
		got := w.systemEvents()
		if len(got[schema.EventRunFailed]) != 1 || len(got[schema.EventDeadLetter]) != 1 || len(got) != 2 {
			t.Fatalf("events = %v, want run.failed and dead_letter.created, once each", got)
		}
		e := got[schema.EventRunFailed][0]
		var body struct {
			Labels  map[string]string
			Outcome string
			Error   string
			Status  int `json:"status_code"`
		}
		if err := json.Unmarshal(e.Payload, &body); err != nil || body.Labels["team"] != "data" || body.Outcome != "failed" || body.Error != "refused" || body.Status != 400 {
			t.Errorf("body = %s, %v", e.Payload, err)
		}
		w.plan(&e)
		if got := w.runsOf(&e); len(got["page"]) != 1 || len(got["other"]) != 0 {
			t.Errorf("runs = %v, want one of the job whose filter takes it", got)
		}
	})
}

func TestWhichEventsFollow(t *testing.T) {
	for name, c := range map[string]struct {
		spec   func(s *schema.Spec)
		rec    schema.Record
		number int
		want   []string
	}{
		"a success":             {rec: schema.Record{Outcome: schema.Succeeded}, number: 1, want: []string{schema.EventRunSucceeded}},
		"a success of a retry":  {rec: schema.Record{Outcome: schema.Succeeded, Started: time.Now().Add(time.Hour)}, number: 2, want: []string{schema.EventRunSucceeded}},
		"a failure to be tried": {rec: schema.Record{Outcome: schema.Failed}, number: 1},
		"a cancel":              {rec: schema.Record{Outcome: schema.Cancelled}, number: 1},
		"missed":                {rec: schema.Record{Outcome: schema.Missed}, want: []string{schema.EventRunMissed}},
		"a step": {
			spec: func(s *schema.Spec) { s.Step = &schema.Step{Name: "a", Due: time.Now()} },
			rec:  schema.Record{Outcome: schema.Failed, Final: true}, number: 1, want: []string{schema.EventRunFailed},
		},
		"a workflow": {
			spec: func(s *schema.Spec) { s.Workflow = new(schema.WorkflowRun) },
			rec:  schema.Record{Outcome: schema.Failed, Final: true}, number: 1, want: []string{schema.EventRunFailed, schema.EventDeadLetter, schema.EventWorkflowFailed},
		},
		"too deep": {
			spec: func(s *schema.Spec) { s.Event = &schema.Event{Name: "e", Depth: schema.MaxEventDepth} },
			rec:  schema.Record{Outcome: schema.Succeeded}, number: 1,
		},
		"deep": {
			spec: func(s *schema.Spec) { s.Event = &schema.Event{Name: "e", Depth: schema.MaxEventDepth - 1} },
			rec:  schema.Record{Outcome: schema.Succeeded}, number: 1, want: []string{schema.EventRunSucceeded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.on("listens", schema.EventTrigger{Event: schema.EventRunSucceeded}, "")
				if err := w.e.RefreshListening(t.Context()); err != nil {
					t.Fatal(err)
				}
				spec := schema.Spec{Tenant: "t", Nominal: time.Now(), Accepted: time.Now().UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}}
				if c.spec != nil {
					c.spec(&spec)
				}
				w.ends(spec, c.rec, c.number)
				audited, err := w.Counts.Audit(t.Context(), "t", schema.AuditDay(time.Now()), schema.AuditID{}, 10)
				if dropped := name == "too deep"; err != nil || (len(audited) == 1 && audited[0].Action == "drop") != dropped {
					t.Errorf("audit log = %+v, %v, want an entry of what was dropped: %v", audited, err, dropped)
				}
				got := w.systemEvents()
				n := 0
				for _, list := range got {
					n += len(list)
				}
				if n != len(c.want) {
					t.Errorf("%d events, want %v", n, c.want)
				}
				for _, name := range c.want {
					if len(got[name]) != 1 {
						t.Errorf("%d events %s, want one of %v", len(got[name]), name, c.want)
					}
				}
			})
		})
	}
	t.Run("late", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.on("listens", schema.EventTrigger{Event: schema.EventRunLate}, "")
			if err := w.e.RefreshListening(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, late := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
				spec := schema.Spec{Tenant: "t", Nominal: time.Now(), Accepted: time.Now().UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://x.test/%d", i)}}}
				w.ends(spec, schema.Record{Outcome: schema.Succeeded, Started: time.Now().Add(late)}, 1)
			}
			if got := w.systemEvents(); len(got[schema.EventRunLate]) != 1 || len(got[schema.EventRunSucceeded]) != 2 {
				t.Errorf("events = %v, want one late of two", got)
			}
		})
	})
}
