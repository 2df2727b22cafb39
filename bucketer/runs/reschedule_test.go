package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A change says what it says, and leaves the rest as it was; also the second one.
func TestRescheduleChangesWhatItNames(t *testing.T) {
	big, bigger := []byte(`"`+strings.Repeat("a", 5000)+`"`), []byte(`"`+strings.Repeat("b", 9000)+`"`)
	small := []byte(`{"n":1}`)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		w.task("t", "known")
		begin := time.Now().UTC()
		at, later := begin.Add(time.Hour), begin.Add(3*time.Hour+700*time.Microsecond)
		job := callTo(at)
		job.Labels = map[string]string{"a": "b"}
		id := w.submit(job)
		payload := small
		due, nominal := at, at
		for i, c := range []Change{
			{Priority: bucketertest.Pointer(schema.High)},
			{Payload: &big},
			{At: &later},
			{Labels: &map[string]string{"c": "d"}},
			{Payload: &bigger},
			{At: bucketertest.Pointer(begin.Add(-time.Hour))},
			{At: &time.Time{}},
			{At: bucketertest.Pointer(begin.Add(30 * 24 * time.Hour))},
			{Payload: &small, Task: bucketertest.Pointer("known")},
			{Payload: bucketertest.Pointer([]byte(nil))},
			{Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "s"}}},
		} {
			run, err := w.Reschedule(t.Context(), "t", id, c)
			if err != nil {
				t.Fatalf("change %d = %v", i, err)
			}
			if c.Payload != nil {
				payload = *c.Payload
			}
			switch {
			case c.At != nil && c.At.IsZero():
				due, nominal = begin, begin
			case c.At != nil && c.At.Before(begin):
				due, nominal = begin, *c.At
			case c.At != nil:
				due, nominal = bucketer.CeilMilli(*c.At), c.At.Truncate(time.Millisecond)
			}
			if run.ID != id || !run.Current.Due().Equal(due) || !run.Current.Spec.Nominal.Equal(nominal) || run.State != schema.StatePending {
				t.Errorf("change %d: %s run due %v (nominal %v), want pending, due %v (%v)", i, run.State, run.Current.Due(), run.Current.Spec.Nominal, due, nominal)
			}
			if got, err := w.Payload(t.Context(), run); err != nil || string(got) != string(payload) {
				t.Errorf("change %d: payload of %d bytes, %v; want %d", i, len(got), err, len(payload))
			}
			if run.Current.Spec.PayloadSize != len(payload) {
				t.Errorf("change %d: payload size %d, want %d", i, run.Current.Spec.PayloadSize, len(payload))
			}
		}
		run := w.mustRun(id)
		if s := run.Current.Spec; s.Priority != schema.High || !maps.Equal(s.Labels, map[string]string{"c": "d"}) || s.Task != "" || s.Work.NATS == nil {
			t.Errorf("after all changes: %s", run.Current.Text())
		}
		if s := run.Entry.Spec; s.Priority != "" || s.Labels["a"] != "b" || !run.Entry.Due().Equal(at) {
			t.Errorf("the row it was born with: %s, want it unchanged", run.Entry.Text())
		}
		if _, err := w.Reschedule(t.Context(), "t", id, Change{Task: bucketertest.Pointer("none")}); !errors.Is(err, bucketer.ErrNoTask) {
			t.Errorf("change to a task that does not exist = %v, want ErrNoTask", err)
		}
		w.fillUp(run.Current.ID.Partition())
		if _, err := w.Reschedule(t.Context(), "t", id, Change{Priority: bucketertest.Pointer(schema.Low)}); !errors.Is(err, bucketer.ErrPartitionFull) {
			t.Errorf("change into a full partition = %v, want ErrPartitionFull", err)
		}
	})
}

// A change of the misfire policy says what it says; unless the run is moved, its deadline counts
// from the instant that was asked for before.
func TestRescheduleChangesTheMisfirePolicy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		begin := time.Now().UTC()
		at := begin.Add(time.Minute)
		hour := &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(time.Hour)}
		id := w.submit(callTo(at))
		change := func(c Change) Run {
			t.Helper()
			run, err := w.Reschedule(t.Context(), "t", id, c)
			if err != nil {
				t.Fatalf("Reschedule(%+v) = %v", c, err)
			}
			return run
		}
		if run := change(Change{Misfire: hour}); *run.Current.Spec.Misfire != *hour || run.Current.Spec.DeadlineFrom != 0 || !run.Current.MisfireFrom().Equal(at) {
			t.Errorf("before it is due: %s", run.Current.Text())
		}
		time.Sleep(time.Until(at) + 10*time.Minute)
		run := change(Change{Misfire: &schema.Misfire{Policy: schema.Skip}})
		if run.Current.Spec.Misfire.Policy != schema.Skip || !run.Current.MisfireFrom().Equal(at) || !run.Current.Due().Equal(at.Add(10*time.Minute)) {
			t.Errorf("once it is overdue: due %v, counted from %v: %s", run.Current.Due(), run.Current.MisfireFrom(), run.Current.Text())
		}
		if run = change(Change{Labels: &map[string]string{"a": "b"}}); !run.Current.MisfireFrom().Equal(at) {
			t.Errorf("after another change its deadline counts from %v, want %v", run.Current.MisfireFrom(), at)
		}
		next := at.Add(time.Hour)
		if run = change(Change{At: &next}); run.Current.Spec.DeadlineFrom != 0 || !run.Current.MisfireFrom().Equal(next) {
			t.Errorf("moved: its deadline counts from %v, want %v", run.Current.MisfireFrom(), next)
		}
		if run = change(Change{Misfire: new(schema.Misfire)}); run.Current.Spec.Misfire != nil {
			t.Errorf("taken back: %s", run.Current.Text())
		}
	})
}

// A reschedule entry means nothing until it is named: its owner is told after that, and only if it
// is near.
func TestRescheduleHintsAfterItNamed(t *testing.T) {
	for name, row := range map[string]struct {
		ahead time.Duration
		want  int
	}{"near": {time.Second, 1}, "now": {0, 1}, "far": {time.Minute, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				id := w.submit(callTo(time.Now().Add(time.Hour)))
				w.Befall(func(_ context.Context, op string) schematest.Fault {
					if op == "MoveRun" {
						if near := w.Hinted(); len(near) > 0 {
							t.Errorf("hint before moved_to:\n%s", bucketertest.Describe(near))
						}
					}
					return schematest.Fault{}
				})
				at := time.Now().Add(row.ahead)
				run, err := w.Reschedule(t.Context(), "t", id, Change{At: &at})
				if err != nil {
					t.Fatal(err)
				}
				if near := w.Hinted(); len(near) != row.want || row.want > 0 && near[0].ID != run.Current.ID {
					t.Errorf("hints:\n%swant %d", bucketertest.Describe(near), row.want)
				}
			})
		})
	}
}

// A reschedule entry that was held too late for its sweep is never named; another is written.
func TestRescheduleEntryHeldLateIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Now().Add(time.Hour)))
		w.BefallFirst(1, "PutEntries", schematest.Fault{Delay: 6 * time.Second})
		run := w.move(id, time.Now())
		if d := time.Since(run.Current.Due()); d > time.Millisecond {
			t.Errorf("the run is due %v ago, want now", d)
		}
		if k := bucketertest.Kinds(w.Entries(time.Minute)); k[schema.KindReschedule] != 2 || k[schema.KindLate] != 0 {
			t.Errorf("kinds = %v, want two reschedule entries and none late", k)
		}
		w.BefallFirst(1000, "PutEntries", schematest.Fault{Delay: 6 * time.Second})
		if _, err := w.Reschedule(t.Context(), "t", id, Change{At: &time.Time{}}); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("Reschedule on a store that is always late = %v, want ErrUnavailable", err)
		}
		if got := w.mustRun(id).Current.ID; got != run.Current.ID {
			t.Errorf("the run was moved to %s, want it where it was", got)
		}
	})
}

// A run that was moved to an earlier time still has the row it was born with: the marks that keep
// it from starting must live as long as it does.
func TestMarksOutliveARowThatWasMovedForward(t *testing.T) {
	const far = 30 * time.Hour // several times the retention
	for _, name := range []string{"moved", "moved twice", "moved and cancelled"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{Retention: 7 * time.Hour})
				id := w.submit(callTo(time.Now().Add(far)))
				w.move(id, time.Now().Add(time.Hour))
				switch name {
				case "moved twice":
					w.move(id, time.Now().Add(2*time.Hour))
				case "moved and cancelled":
					w.cancel(id)
				}
				time.Sleep(far)
				e, ok := w.Row(id)
				if !ok || e.Marks.MovedTo.IsZero() || name == "moved and cancelled" && e.Marks.Cancelled == nil {
					t.Errorf("at its old time the row is there: %v, with marks %+v; want it marked as long as it is there", ok, e.Marks)
				}
				a := w.NotStarted(schema.LoadEntry(e.Marks.MovedTo, fmt.Appendf(nil, `{"of":%q}`, id), nil, schema.Marks{}), schema.Record{}, time.Now().Add(-far))
				if a.Expires.Before(id.Time()) {
					t.Errorf("what became of the run leaves at %v, before its row", a.Expires)
				}
			})
		})
	}
}

// A large payload lies under the entry that it came with. Whoever refers to it keeps it, however
// far the run is moved.
func TestLargePayloadOutlivesTheEntryItCameWith(t *testing.T) {
	const far = 30 * time.Hour // several times the retention
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Retention: 7 * time.Hour})
		big := []byte(strings.Repeat("x", schema.InlinePayload+1))
		id := w.submit(callTo(time.Now().Add(time.Hour)))
		if _, err := w.Reschedule(t.Context(), "t", id, Change{Payload: &big}); err != nil {
			t.Fatal(err)
		}
		w.move(id, time.Now().Add(far))
		time.Sleep(far)
		run := w.mustRun(id)
		if got, err := w.Payload(t.Context(), run); err != nil || string(got) != string(big) {
			t.Errorf("Payload when the run is due = %d bytes, %v; want %d", len(got), err, len(big))
		}
		retry := schema.MakeEntryID(time.Now().Add(6*time.Hour), id.Shard(), 1)
		a := w.Recorded(run.Current, 1, schema.Record{Outcome: schema.Failed, Next: retry})
		w.FollowUp(t.Context(), []bucketer.Finished{{Entry: run.Current, Attempt: a}}, func(_ int, err error) {
			if err != nil {
				t.Errorf("FollowUp = %v", err)
			}
		})
		time.Sleep(12 * time.Hour)
		e, ok := w.Row(retry)
		if !ok {
			t.Fatal("the retry has left")
		}
		if got, err := w.EntryPayload(t.Context(), &e); err != nil || string(got) != string(big) {
			t.Errorf("payload of the retry = %d bytes, %v; want %d", len(got), err, len(big))
		}
		w.mustRun(id)
	})
}
