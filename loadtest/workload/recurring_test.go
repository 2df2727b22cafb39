package workload_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/workload"
)

func recurring() workload.Recurring {
	return workload.Recurring{
		N: 2000, Every: 30 * time.Second, From: from, Seed: 7, Source: "r7", Target: "http://127.0.0.1:9/hook",
		Start: from.Add(5 * time.Minute), End: from.Add(10 * time.Minute), Misfires: []workload.Misfire{{}, {Policy: "skip", Deadline: "5s"}},
	}
}

func TestRecurringJobsAreAsSpecified(t *testing.T) {
	r := recurring()
	kinds := map[string]int{}
	for n := 1; n <= r.N; n++ {
		text, err := r.Body(n)
		if err != nil {
			t.Fatalf("Body(%d): %v", n, err)
		}
		var job struct {
			check.JobView
			Jitter *check.Span `json:"jitter"`
			HTTP   struct {
				URL string `json:"url"`
			} `json:"http"`
		}
		if err := json.Unmarshal(text, &job); err != nil {
			t.Fatalf("Body(%d) = %s: %v", n, text, err)
		}
		if ref, _ := check.ParseRef(job.HTTP.URL); ref != (check.Ref{Source: "r7", Line: n}) {
			t.Fatalf("Body(%d) calls %s", n, job.HTTP.URL)
		}
		if !job.Start.Equal(r.Start) || !job.End.Equal(r.End) {
			t.Fatalf("Body(%d) starts at %s and ends at %s, want %s and %s", n, job.Start, job.End, r.Start, r.End)
		}
		if want := r.Misfires[(n-1)%2]; job.Misfire.Policy != want.Policy {
			t.Fatalf("Body(%d) has the policy %q, want %q", n, job.Misfire.Policy, want.Policy)
		}
		s := job.Schedule
		switch {
		case s.Every != 0 && s.Cron == "" && time.Duration(s.Every) == r.Every:
			if !s.Anchor.IsZero() && (s.Anchor.After(from) || from.Sub(s.Anchor) >= r.Every) {
				t.Fatalf("Body(%d) is anchored at %s, want within %s before %s", n, s.Anchor, r.Every, from)
			}
			kinds[fmt.Sprintf("interval, anchored %t, jitter stated %t", !s.Anchor.IsZero(), job.Jitter != nil)]++
		case s.Cron != "" && s.Every == 0:
			kinds[fmt.Sprintf("cron, zone %t", s.Timezone != "")]++
		default:
			t.Fatalf("Body(%d) = %s, want an interval or a cron expression", n, text)
		}
	}
	for kind, least := range map[string]int{
		"interval, anchored true, jitter stated false": 600, "interval, anchored false, jitter stated false": 600,
		"interval, anchored true, jitter stated true": 50, "cron, zone false": 130, "cron, zone true": 50,
	} {
		if kinds[kind] < least {
			t.Errorf("%d of %d jobs are of the kind %q, want at least %d", kinds[kind], r.N, kind, least)
		}
	}
}

func TestTheSameRecurringMakesTheSameJobs(t *testing.T) {
	r, other := recurring(), recurring()
	other.Seed++
	differ := false
	for n := 1; n <= 50; n++ {
		a, err := r.Body(n)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.Body(n); err != nil || !bytes.Equal(a, again) {
			t.Errorf("Body(%d) = %s, then %s, %v", n, a, again, err)
		}
		b, err := other.Body(n)
		if err != nil {
			t.Fatal(err)
		}
		differ = differ || !bytes.Equal(a, b)
	}
	if !differ {
		t.Error("another seed makes the same jobs")
	}
}

func TestRecurringRefusesWhatCannotBeMade(t *testing.T) {
	for name, change := range map[string]func(*workload.Recurring){
		"no jobs":                       func(r *workload.Recurring) { r.N = 0 },
		"too often":                     func(r *workload.Recurring) { r.Every = time.Millisecond },
		"no instant":                    func(r *workload.Recurring) { r.From = time.Time{} },
		"a bad source":                  func(r *workload.Recurring) { r.Source = "a/b" },
		"no time between start and end": func(r *workload.Recurring) { r.End = r.Start },
		"a start that is no whole ms":   func(r *workload.Recurring) { r.Start = r.Start.Add(time.Microsecond) },
		"a bad target":                  func(r *workload.Recurring) { r.Target = "nowhere" },
	} {
		r := recurring()
		if change(&r); r.Validate() == nil {
			t.Errorf("Validate with %s = nil, want an error", name)
		}
		if _, err := r.Body(1); err == nil {
			t.Errorf("Body with %s = nil error", name)
		}
	}
}
