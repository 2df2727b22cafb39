package embedded

import (
	"context"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestAJobThatCannotBeUnderstoodFailsNoOther: it is read with its fault, number, state and cut; alone it is an error.
func TestAJobThatCannotBeUnderstoodFailsNoOther(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background()
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []schema.JobID
	for i := range 3 {
		j := schema.Job{ID: schema.MakeJobID(begin.Add(time.Duration(i)*time.Second), 1, 1), Current: schema.Generation{Number: 7, State: schema.JobActive, Spec: schema.JobSpec{Tenant: "t"}}}
		ids = append(ids, j.ID)
		data, err := encodeJob(&j)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			data = []byte(strings.Replace(string(data), `"tenant":"t"`, `"tenant":8`, 1))
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
		if len(jobs) != 3 {
			t.Fatalf("%s = %d jobs, want 3", name, len(jobs))
		}
		for i, j := range jobs {
			if (j.Fault() != nil) != (i == 1) || j.ID != ids[i] || j.Current.Number != 7 || j.Current.State != schema.JobActive {
				t.Errorf("%s: job %d = %+v, fault %v, want generation 7, active, and a fault of the second alone", name, i, j, j.Fault())
			}
		}
	}
	if _, err := s.Job(ctx, ids[1]); err == nil {
		t.Error("Job of one that cannot be understood = nil, want an error")
	}
	if _, err := s.Job(ctx, ids[0]); err != nil {
		t.Errorf("Job beside it = %v", err)
	}
}
