package runs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

// list returns the ids of the runs of the last minutes and the next that f selects.
func (w *world) list(f Filter) (ids []schema.RunID) {
	w.T.Helper()
	now := time.Now()
	for _, r := range w.pages(Window{Tenant: "t", From: now.Add(-2 * time.Minute), To: now.Add(15 * time.Minute), Filter: f}, 2) {
		ids = append(ids, r.ID)
	}
	return ids
}

// Late are runs that started too late, that have not started though they could have, and missed ones.
func TestLateRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		start := func(job bucketer.Job, after time.Duration, rec schema.Record) schema.RunID {
			t.Helper()
			id := w.submit(job)
			e, _ := w.Row(id)
			rec.Started = e.Due().Add(after).UTC()
			number := 1
			if rec.Outcome == schema.Missed {
				rec.Started, number = time.Time{}, 0
			}
			w.Recorded(e, number, rec)
			return id
		}
		ok, failed := schema.Record{Outcome: schema.Succeeded}, schema.Record{Outcome: schema.Failed, Final: true}
		at := func(s int) bucketer.Job { return callTo(time.Now().Add(time.Duration(s) * time.Second)) }
		inTime := start(at(1), 5*time.Second, ok)
		byMS := start(at(2), 5*time.Second+time.Millisecond, ok)
		byLess := start(at(3), 5*time.Second+time.Microsecond, ok) // shown as 5 s
		byMinutes := start(at(4), 10*time.Minute, failed)
		missed := start(at(5), 0, schema.Record{Outcome: schema.Missed, Reason: "skip"})
		waits := w.submit(at(6))
		cancelled := w.submit(at(7))
		w.cancel(cancelled)
		soon := w.submit(at(60))
		time.Sleep(16 * time.Second)
		late := 5 * time.Second
		if got, want := w.list(Filter{Late: &late}), []schema.RunID{byMS, byMinutes, missed, waits}; !slices.Equal(got, want) {
			t.Errorf("later than 5 s are %v, want %v; not %v in time, %v by less than shown, %v cancelled, %v to come", got, want, inTime, byLess, cancelled, soon)
		}
		late = time.Minute
		if got, want := w.list(Filter{Late: &late, States: []schema.State{schema.StateFailed, schema.StatePending}}), []schema.RunID{byMinutes}; !slices.Equal(got, want) {
			t.Errorf("failed ones later than a minute are %v, want %v", got, want)
		}
		late = 0
		if got := w.list(Filter{Late: &late}); len(got) != 6 {
			t.Errorf("late at all are %v, want all but one cancelled and one to come", got)
		}
	})
}

// A run that is taken in late is late from then on, and one that was moved from its new time on.
func TestLatenessCountsFromWhenItCouldStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		past := w.submit(callTo(time.Now().Add(-time.Hour)))
		moved := w.submit(callTo(time.Now().Add(time.Minute)))
		w.move(moved, time.Now().Add(20*time.Second))
		time.Sleep(10 * time.Second)
		late := 5 * time.Second
		if got := w.list(Filter{Late: &late}); !slices.Equal(got, []schema.RunID{past}) {
			t.Errorf("after 10 s later than 5 s are %v, want %s alone, that was asked for an hour ago", got, past)
		}
		time.Sleep(20 * time.Second)
		if got := w.list(Filter{Late: &late}); !slices.Equal(got, []schema.RunID{past, moved}) {
			t.Errorf("after 30 s later than 5 s are %v, want also %s, that was moved", got, moved)
		}
	})
}

func TestFilterByLabelsAndKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		add := func(s int, key string, labels map[string]string) schema.RunID {
			job := callTo(time.Now().Add(time.Duration(s) * time.Minute))
			job.Labels, job.Key = labels, key
			return w.submit(job)
		}
		a := add(1, "k", map[string]string{"team": "a", "env": "prod"})
		b := add(2, "", map[string]string{"team": "b", "env": "prod"})
		none := add(3, "", nil)
		empty := add(4, "", map[string]string{"team": ""})
		w.move(b, time.Now().Add(10*time.Minute))
		relabelled := map[string]string{"team": "c"}
		if _, err := w.Reschedule(t.Context(), "t", empty, Change{Labels: &relabelled}); err != nil {
			t.Fatal(err)
		}
		for name, row := range map[string]struct {
			filter Filter
			want   []schema.RunID
		}{
			"all":              {Filter{}, []schema.RunID{a, none, empty, b}},
			"a label":          {Filter{Labels: map[string]string{"env": "prod"}}, []schema.RunID{a, b}},
			"two labels":       {Filter{Labels: map[string]string{"env": "prod", "team": "a"}}, []schema.RunID{a}},
			"another value":    {Filter{Labels: map[string]string{"env": "dev"}}, nil},
			"a former label":   {Filter{Labels: map[string]string{"team": ""}}, nil},
			"its present one":  {Filter{Labels: map[string]string{"team": "c"}}, []schema.RunID{empty}},
			"a key":            {Filter{Key: "k"}, []schema.RunID{a}},
			"another key":      {Filter{Key: "kk"}, nil},
			"a key and labels": {Filter{Key: "k", Labels: map[string]string{"team": "b"}}, nil},
		} {
			if got := w.list(row.filter); !slices.Equal(got, row.want) {
				t.Errorf("%s: %v, want %v", name, got, row.want)
			}
		}
		if run, err := w.RunByKey(t.Context(), "t", "k", time.Time{}); err != nil || run.ID != a {
			t.Errorf("RunByKey = %+v, %v; want %s", run, err, a)
		}
		if _, err := w.RunByKey(t.Context(), "u", "k", time.Time{}); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("RunByKey of another tenant = %v, want ErrNotFound", err)
		}
	})
}

// Which workflow runs wait is asked for those alone that are under way and that may match.
func TestWhichWorkflowRunsWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		begin := func(s int, ended bool) schema.RunID {
			t.Helper()
			id := schema.MakeEntryID(time.Now().Add(time.Duration(s)*time.Second), 3, uint64(s)) // #nosec G115 -- small
			e, err := schema.NewEntry(id, schema.Spec{Tenant: "t", Workflow: new(schema.WorkflowRun)}, nil, time.Now().Add(time.Hour))
			if err == nil {
				err = w.Counts.PutEntries(t.Context(), []schema.Entry{e})
			}
			if err != nil {
				t.Fatal(err)
			}
			w.Recorded(e, 1, schema.Record{Outcome: schema.Began, Started: time.Now().UTC()})
			if ended {
				time.Sleep(time.Millisecond)
				w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded, Started: time.Now().UTC()})
			}
			return id
		}
		busy, waits, ended := begin(1, false), begin(2, false), begin(3, true)
		w.submit(callTo(time.Now()))
		var asked []schema.RunID
		w.AskWaits(func(_ context.Context, runs []*Run) (int, error) {
			for _, r := range runs {
				asked = append(asked, r.ID)
				r.Waits = r.ID == waits
			}
			return len(runs), nil
		})
		for name, row := range map[string]struct {
			states      []schema.State
			want, asked []schema.RunID
		}{
			"those that wait":    {[]schema.State{schema.StateWaiting}, []schema.RunID{waits}, []schema.RunID{busy, waits}},
			"those under way":    {[]schema.State{schema.StateRunning}, []schema.RunID{busy, waits}, []schema.RunID{busy, waits}},
			"those that ended":   {[]schema.State{schema.StateSucceeded}, []schema.RunID{ended}, nil},
			"those that are not": {[]schema.State{schema.StateStuck, schema.StateMissed}, nil, nil},
		} {
			asked = nil
			if got := w.list(Filter{States: row.states}); !slices.Equal(got, row.want) || !slices.Equal(asked, row.asked) {
				t.Errorf("%s: %v, and asked about %v; want %v and %v", name, got, asked, row.want, row.asked)
			}
		}
		broken := errors.New("broken")
		w.AskWaits(func(context.Context, []*Run) (int, error) { return 0, broken })
		if got, _, err := w.Runs(t.Context(), Window{Tenant: "t", From: time.Now(), To: time.Now().Add(time.Hour)}, Position{}, 10); !errors.Is(err, broken) || got != nil {
			t.Errorf("Runs while it cannot be known = %v, %v; want the error alone", got, err)
		}
	})
}

// A page of a filter that hardly anything matches looks at many rows at a time, and goes on over a day.
func TestAPageOfARareFilterLooksAtManyRows(t *testing.T) {
	w := newWorld(t, schema.Settings{Shards: 4})
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	const n = 20_000
	var last schema.EntryID
	batch := make([]schema.Entry, 0, 100)
	for i := range n {
		at := begin.Add(time.Duration(i) * time.Millisecond)
		last = schema.MakeEntryID(at, schema.Shard(i%4), uint64(i)) // #nosec G115 -- small
		e, err := schema.NewEntry(last, schema.Spec{Tenant: "t", Accepted: 1}, nil, at.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if batch = append(batch, e); len(batch) == cap(batch) {
			if err := w.Counts.PutEntries(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	e, _ := w.Row(last)
	w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Final: true})
	win := Window{Tenant: "t", From: begin, To: begin.Add(24 * time.Hour), Filter: Filter{States: []schema.State{schema.StateFailed}}}
	pages := 0
	var found []Run
	for pos := (&Position{}); pos != nil; pages++ {
		var page []Run
		var err error
		if page, pos, err = w.Runs(t.Context(), win, *pos, 50); err != nil {
			t.Fatal(err)
		}
		found = append(found, page...)
	}
	// A day has 4 × 1,440 partitions, 500 of them a page, and 20,000 rows.
	if len(found) != 1 || found[0].ID != last || pages > 16 {
		t.Errorf("%d runs on %d pages, want %s on at most 16", len(found), pages, last)
	}
}

// What is shown of runs that have not ended.
func TestShownStates(t *testing.T) {
	id := schema.MakeEntryID(testNow, 3, 1)
	join := &schema.Join{Until: testNow.Add(time.Hour)}
	until := schema.JoinDeadlineID(id, join.Until)
	for name, row := range map[string]struct {
		run  Run
		want schema.State
	}{
		"a run":              {Run{State: schema.StatePending}, schema.StatePending},
		"a join":             {Run{State: schema.StatePending, Entry: schema.Entry{Spec: schema.Spec{Kind: schema.KindJoin, Join: join}}}, schema.StateWaiting},
		"a join that ended":  {Run{State: schema.StateSkipped, Entry: schema.Entry{Spec: schema.Spec{Kind: schema.KindJoin, Join: join}}}, schema.StateSkipped},
		"a wait":             {Run{State: schema.StatePending, Entry: schema.Entry{Spec: schema.Spec{Step: &schema.Step{Wait: new(schema.StepWait)}}}}, schema.StateWaiting},
		"a wait that ended":  {Run{State: schema.StateSucceeded, Entry: schema.Entry{Spec: schema.Spec{Step: &schema.Step{Wait: new(schema.StepWait)}}}}, schema.StateSucceeded},
		"a step":             {Run{State: schema.StatePending, Entry: schema.Entry{Spec: schema.Spec{Step: new(schema.Step)}}}, schema.StatePending},
		"a workflow":         {Run{State: schema.StateRunning, Entry: schema.Entry{Spec: schema.Spec{Workflow: new(schema.WorkflowRun)}}}, schema.StateRunning},
		"one that waits":     {Run{State: schema.StateRunning, Waits: true, Entry: schema.Entry{Spec: schema.Spec{Workflow: new(schema.WorkflowRun)}}}, schema.StateWaiting},
		"one that has ended": {Run{State: schema.StateFailed, Waits: true, Entry: schema.Entry{Spec: schema.Spec{Workflow: new(schema.WorkflowRun)}}}, schema.StateFailed},
		"a join that is stuck": {Run{
			State: schema.StatePending, Entry: schema.Entry{ID: id, Spec: schema.Spec{Kind: schema.KindJoin, Join: join}},
			Attempts: []schema.Attempt{{Run: id, Record: &schema.Record{Entry: until, Outcome: schema.Replaced}}},
		}, schema.StateStuck},
		"a join that fired": {Run{
			State:   schema.StatePending,
			Entry:   schema.Entry{ID: id, Marks: schema.Marks{MovedTo: until}, Spec: schema.Spec{Kind: schema.KindJoin, Join: join}},
			Current: schema.Entry{ID: until, Spec: schema.Spec{Kind: schema.KindReschedule, Join: join}},
		}, schema.StatePending},
	} {
		if got := row.run.Shown(); got != row.want {
			t.Errorf("%s is shown as %s, want %s", name, got, row.want)
		}
	}
}

// How late runs are that wait: joins are not, since they could not start.
func TestJoinsAreNotLate(t *testing.T) {
	id := schema.MakeEntryID(testNow, 3, 1)
	e := schema.Entry{ID: id, Spec: schema.Spec{Tenant: "t", Kind: schema.KindJoin, Of: id, Join: &schema.Join{Until: testNow.Add(time.Hour)}}}
	run := Run{ID: id, Entry: e, Current: e, State: schema.StatePending}
	w := Window{Tenant: "t", From: testNow, Filter: Filter{Late: bucketertest.Pointer(time.Second)}}
	if w.Holds(&run, testNow.Add(time.Minute)) {
		t.Error("a run that waits for other jobs is late")
	}
	run.Entry.Spec.Kind, run.Entry.Spec.Join = "", nil
	run.Current = run.Entry
	if !w.Holds(&run, testNow.Add(time.Minute)) || w.Holds(&run, testNow.Add(time.Second)) {
		t.Error("a run that has not started is late after the span, and not before")
	}
	if w.To = testNow; w.Holds(&run, testNow.Add(time.Minute)) {
		t.Error("a window holds a run that is due at its end")
	}
}
