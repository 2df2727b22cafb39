package embedded

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// open returns a store in memory, which is closed after the test.
func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestAJobThatCannotBeUnderstoodFailsNoOther: it is read with its fault and what else of it can be
// read; alone it is an error.
func TestAJobThatCannotBeUnderstoodFailsNoOther(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []schema.JobID
	for i := range 5 {
		j := schema.Job{ID: schema.MakeJobID(begin.Add(time.Duration(i)*time.Second), 1, 1), Current: schema.Generation{Number: 7, State: schema.JobActive, Spec: schema.JobSpec{Tenant: "t"}}}
		ids = append(ids, j.ID)
		data, err := encodeJob(&j)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 1:
			data = []byte(strings.Replace(string(data), `"tenant":"t"`, `"tenant":8`, 1))
		case 3:
			data = []byte("no JSON")
		}
		if err := s.setRow(jobKey(j.ID), data, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	byID, err := s.Jobs(ctx, 1, ids)
	if err != nil {
		t.Fatalf("Jobs = %v", err)
	}
	walked, err := s.JobsOf(ctx, 1, schema.JobID{}, 10)
	if err != nil {
		t.Fatalf("JobsOf = %v", err)
	}
	for name, jobs := range map[string][]schema.Job{"Jobs": byID, "JobsOf": walked} {
		if len(jobs) != 5 {
			t.Fatalf("%s = %d jobs, want 5", name, len(jobs))
		}
		for i, j := range jobs {
			number := int64(7)
			if i == 3 {
				number = 0
			}
			if errors.Is(j.Fault(), schema.ErrNotUnderstood) != (i%2 == 1) || j.ID != ids[i] || j.Current.Number != number || j.Current.State != schema.JobActive {
				t.Errorf("%s: job %d = %+v, fault %v, want generation %d, active, and a fault of the second and the fourth alone", name, i, j, j.Fault(), number)
			}
		}
	}
	for i, id := range ids {
		if _, err := s.Job(ctx, id); errors.Is(err, schema.ErrNotUnderstood) != (i%2 == 1) || err != nil && i%2 == 0 {
			t.Errorf("Job %d = %v, want ErrNotUnderstood of the second and the fourth", i, err)
		}
	}
	next := schema.Job{ID: ids[3], Current: schema.Generation{Number: 9, State: schema.JobActive, Spec: schema.JobSpec{Tenant: "t"}}}
	if err := s.SwapJob(ctx, 7, next); !errors.Is(err, schema.ErrNotUnderstood) {
		t.Errorf("SwapJob of one of which nothing can be read = %v, want ErrNotUnderstood", err)
	}
	if err := s.SwapJob(ctx, 0, next); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("SwapJob of no job where there is one of which nothing can be read = %v, want ErrConflict", err)
	}
}

// TestAJobWhosePastCannotBeUnderstoodIsRead alone too, by who will change it: what it said before
// is of no consequence.
func TestAJobWhosePastCannotBeUnderstoodIsRead(t *testing.T) {
	s := open(t)
	said := func(number int64, tenant string) schema.Generation {
		return schema.Generation{Number: number, State: schema.JobActive, Spec: schema.JobSpec{Tenant: tenant}}
	}
	before := said(7, "before")
	j := schema.Job{ID: schema.MakeJobID(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), 1, 1), Current: said(8, "now"), Before: &before}
	data, err := encodeJob(&j)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.setRow(jobKey(j.ID), []byte(strings.Replace(string(data), `"tenant":"before"`, `"tenant":8`, 1)), time.Time{}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Job(t.Context(), j.ID)
	if err != nil || got.Current.Spec.Tenant != "now" || got.Before == nil || !errors.Is(got.Before.Fault, schema.ErrNotUnderstood) {
		t.Errorf("Job = %+v, %v, want it, and a fault of the generation before", got, err)
	}
}
