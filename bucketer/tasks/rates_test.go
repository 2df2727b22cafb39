package tasks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func (w *world) rates() map[schema.TaskName]schema.Rate {
	w.T.Helper()
	rates, err := w.Rates(w.T.Context())
	if err != nil {
		w.T.Fatalf("Rates = %v", err)
	}
	return rates
}

func (w *world) rated(name, rate string) error {
	time.Sleep(time.Millisecond)
	_, _, err := w.PutTask(w.T.Context(), schema.Task{Tenant: "t", Name: name, Rate: rate})
	return err
}

func TestRatesOfTasks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.task("t", "none")
		w.Counts.Reset()
		if rates := w.rates(); len(rates) != 0 || w.Counts.Tally("Task").Calls != 0 || w.Counts.Tally("RatedTasks").Calls != 1 {
			t.Errorf("Rates of tasks without = %v, with %v; want none, for one read", rates, w.Counts.Tallies())
		}
		name := schema.TaskName{Tenant: "t", Name: "a"}
		for _, rate := range []string{"10/s", "10/s", "5/m", "", "", "1/h"} {
			if err := w.rated("a", rate); err != nil {
				t.Fatalf("PutTask with rate %q = %v", rate, err)
			}
			if got := w.rates()[name].String(); got != rate {
				t.Errorf("Rates after %q = %q", rate, got)
			}
		}
		time.Sleep(time.Millisecond)
		if err := w.DeleteTask(t.Context(), "t", "a"); err != nil {
			t.Fatal(err)
		}
		if rates := w.rates(); len(rates) != 0 {
			t.Errorf("Rates after DeleteTask = %v, want none", rates)
		}
		if left, err := w.Counts.RatedTasks(t.Context(), schema.TaskName{}, 10); err != nil || len(left) != 0 {
			t.Errorf("RatedTasks = %v, %v, want none left", left, err)
		}
	})
}

// Crash between the note and the task, in both directions; and a task of a version that knows other
// rates.
func TestRatesAreWhatTasksSay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "PutTask", schematest.Fault{Fail: true})
		if err := w.rated("a", "10/s"); !errors.Is(err, schema.ErrUnavailable) {
			t.Fatalf("PutTask = %v, want ErrUnavailable", err)
		}
		if rates := w.rates(); len(rates) != 0 {
			t.Errorf("Rates of a task that was not put = %v", rates)
		}
		if err := w.rated("a", "10/s"); err != nil {
			t.Fatal(err)
		}
		w.BefallFirst(1, "PutRated", schematest.Fault{Fail: true})
		if err := w.rated("a", ""); err != nil {
			t.Errorf("PutTask without rate = %v: the note is no more than a hint", err)
		}
		if rates := w.rates(); len(rates) != 0 {
			t.Errorf("Rates of a task that has none any more = %v", rates)
		}
		w.BefallFirst(1, "PutRated", schematest.Fault{Fail: true})
		if err := w.rated("b", "10/s"); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("PutTask with a rate that could not be noted = %v, want ErrUnavailable", err)
		}
		if err := w.rated("c", "every now and then"); err != nil {
			t.Fatal(err)
		}
		if err := w.rated("d", "10/s"); err != nil {
			t.Fatal(err)
		}
		if rates := w.rates(); len(rates) != 1 || rates[schema.TaskName{Tenant: "t", Name: "d"}].Count != 10 {
			t.Errorf("Rates = %v, want that of the task that is understood", rates)
		}
	})
}

// TestRequiredLabelsAreListed: who reads the rates of tasks learns which labels tasks require; a
// task that has neither any more is not listed.
func TestRequiredLabelsAreListed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		name := schema.TaskName{Tenant: "t", Name: "a"}
		for _, c := range []struct {
			rate     string
			requires schema.Labels
		}{{"", schema.Labels{"gpu": "true"}}, {"10/s", schema.Labels{"gpu": "true", "zone": "a"}}, {"10/s", nil}, {"", schema.Labels{"zone": "b"}}, {"", nil}} {
			time.Sleep(time.Millisecond)
			if _, _, err := w.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a", Rate: c.rate, Work: schema.Work{Requires: c.requires}}); err != nil {
				t.Fatalf("PutTask that requires %q = %v", c.requires, err)
			}
			if rate := w.rates()[name].String(); rate != c.rate || w.Requires(name).String() != c.requires.String() {
				t.Errorf("a task with rate %q that requires %q: known are %q and %q", c.rate, c.requires, rate, w.Requires(name))
			}
			if other := w.Requires(schema.TaskName{Tenant: "u", Name: "a"}); other != nil {
				t.Errorf("another tenant's task requires %q, want nothing", other)
			}
		}
		if left, err := w.Counts.RatedTasks(t.Context(), schema.TaskName{}, 10); err != nil || len(left) != 0 {
			t.Errorf("RatedTasks = %v, %v, want none left", left, err)
		}
	})
}

// Dispatchers ask every few seconds, so each task that has a rate is read less often than that.
func TestRatesAreRememberedForTenSeconds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.rated("a", "1/s"); err != nil {
			t.Fatal(err)
		}
		w.Counts.Reset()
		for range 36 {
			if rates := w.rates(); len(rates) != 1 {
				t.Fatalf("Rates = %v, want one", rates)
			}
			time.Sleep(5 * time.Second)
		}
		if n := w.Counts.Tally("Task").Calls; n != 18 {
			t.Errorf("%d reads of the task in three minutes, want 18", n)
		}
	})
}

// TestARateWhoseChangeIsNotHeardOf: who asked between the note and the task believed for a minute
// that there was none, and kept no rate, where the signal was lost.
func TestARateWhoseChangeIsNotHeardOf(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		name := schema.TaskName{Tenant: "t", Name: "a"}
		if err := w.Counts.PutRated(t.Context(), name, true, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, rate := range []string{"", "2/s"} {
			if rates := w.rates(); len(rates) != 0 {
				t.Errorf("Rates of a task without = %v", rates)
			}
			if err := w.Counts.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a", Rate: rate}); err != nil {
				// and nobody says so
				t.Fatal(err)
			}
		}
		if got := w.rates()[name].String(); got != "2/s" {
			t.Errorf("Rates of a task that has one by now = %q, want 2/s", got)
		}
	})
}

func TestRatesAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range MaxRated {
			if err := w.Counts.PutRated(t.Context(), schema.TaskName{Tenant: "t", Name: fmt.Sprintf("t%05d", i)}, true, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.rated("one-more", "1/s"); !errors.Is(err, bucketer.ErrManyRates) {
			t.Errorf("PutTask = %v, want ErrManyRates", err)
		}
		if err := w.rated("no-rate", ""); err != nil {
			t.Errorf("PutTask without rate = %v", err)
		}
	})
}

// What is put off is a function of what it stands for and of its time, lies at or after that, and
// forgets its start when it is moved on.
func TestDefer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		now := time.Now()
		e, _ := w.Row(w.submit(callTo(now.Add(time.Minute))))
		at := now.Add(time.Hour + 300*time.Microsecond)
		a, err := w.Defer(&e, at, "10/s", now)
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Defer(&e, at, "10/s", now)
		if err != nil || a.ID != b.ID || string(a.Text()) != string(b.Text()) {
			t.Errorf("Defer twice = %s %s, %s %s, %v; want the same", a.ID, a.Text(), b.ID, b.Text(), err)
		}
		if a.Due().Before(at) || a.Due().Sub(at) >= time.Millisecond || a.ID.Shard() != e.ID.Shard() {
			t.Errorf("Defer to %s = %s in shard %d", at, a.Due(), a.ID.Shard())
		}
		if s := &a.Spec; s.Kind != schema.KindDeferral || s.Of != e.ID || s.For != e.ID || s.ReservedRate != "10/s" || s.Deferrals != 0 || !s.Nominal.Equal(e.Spec.Nominal) {
			t.Errorf("Defer = %+v", s)
		}
		for _, kind := range []schema.Kind{schema.KindWatch, schema.KindLate, schema.KindDeferral, schema.KindRetry} {
			later, err := w.LaterStart(&a, kind, schema.MakeEntryID(at, 1, 1), 1, now)
			if err != nil || later.Spec.ReservedRate != "" {
				t.Errorf("Later, %s = pace %q, %v; want none", kind, later.Spec.ReservedRate, err)
			}
		}
		if other, err := w.Defer(&e, at.Add(time.Millisecond), "10/s", now); err != nil || other.ID == a.ID {
			t.Errorf("Defer to another time = the same id, %v", err)
		}
	})
}

// odd is a store that holds a task which cannot be understood, until it is put again.
type odd struct {
	bucketer.Store
	name  string
	since time.Time
	put   bool
}

func (o *odd) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	if name != o.name || o.put {
		return o.Store.Task(ctx, tenant, name)
	}
	return schema.Task{Tenant: tenant, Name: name, UpdatedAt: o.since, Fault: schema.ErrNotUnderstood}, schema.ErrNotUnderstood
}

func (o *odd) PutTask(ctx context.Context, t schema.Task) error {
	o.put = o.put || t.Name == o.name && t.UpdatedAt.After(o.since)
	return o.Store.PutTask(ctx, t)
}

// A rated task that cannot be understood hides the rates of no other: a dispatcher begins only once
// it has them. It can be put again.
func TestARatedTaskThatCannotBeUnderstood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, name := range []string{"a", "bad", "c"} {
			if err := w.rated(name, "5/s"); err != nil {
				t.Fatal(err)
			}
		}
		store := &odd{Store: w.Store(), name: "bad", since: time.Now().Add(3 * time.Second)}
		w.Bucketer, w.taskParts = w.on(bucketer.Config{Store: store, Hints: w, Signals: w})
		time.Sleep(2 * time.Minute)
		if rates := w.rates(); len(rates) != 2 {
			t.Errorf("Rates = %v, want those of the two others", rates)
		}
		if _, err := w.Submit(t.Context(), bucketer.Job{Tenant: "t", Task: "bad"}); !errors.Is(err, schema.ErrNotUnderstood) {
			t.Errorf("Submit = %v, want ErrNotUnderstood", err)
		}
		store.since = time.Now().Add(3 * time.Second)
		if err := w.rated("bad", "7/s"); err != nil || !store.put {
			t.Errorf("PutTask = %v, over what is there: %v", err, store.put)
		}
		if rates := w.rates(); len(rates) != 3 {
			t.Errorf("Rates = %v, want all three", rates)
		}
	})
}
