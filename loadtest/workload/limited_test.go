package workload_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/workload"
)

func TestLimitedJobsAreAsSpecified(t *testing.T) {
	l := workload.Limited{
		N: 3, Start: from, End: from.Add(time.Minute), Source: "l1", Target: "http://h",
		Shapes: []workload.LimitedShape{
			{Every: 4 * time.Second, Work: 5 * time.Second, Limit: 1, OnLimit: "queue"},
			{Every: 2 * time.Second, Limit: 2, OnLimit: "skip", Guarantee: "effectively_once"},
		},
	}
	for n, url := range map[int]string{1: "http://h/work-5s/l1/1", 2: "http://h/l1/2", 3: "http://h/work-5s/l1/3"} {
		text, err := l.Body(n)
		if err != nil {
			t.Fatalf("Body(%d): %v", n, err)
		}
		var job struct {
			check.JobView
			HTTP struct {
				URL string `json:"url"`
			} `json:"http"`
			Payload struct {
				Ref string `json:"ref"`
			} `json:"payload"`
		}
		if err := json.Unmarshal(text, &job); err != nil {
			t.Fatalf("Body(%d) = %s: %v", n, text, err)
		}
		shape := l.Of(n)
		want := &check.Concurrency{Limit: shape.Limit, OnLimit: shape.OnLimit}
		if diff := cmp.Diff(want, job.Concurrency); diff != "" || job.HTTP.URL != url || string(job.Guarantee) != shape.Guarantee {
			t.Errorf("Body(%d) = %s, want %s with the guarantee %q and the concurrency (-want +got):\n%s", n, text, url, shape.Guarantee, diff)
		}
		if ref, _ := check.ParseRef(job.Payload.Ref); ref != (check.Ref{Source: "l1", Line: n}) || time.Duration(job.Schedule.Every) != shape.Every || job.Misfire.Policy != "run_all" {
			t.Errorf("Body(%d) = %s, want it to run all every %s, and to name its job", n, text, shape.Every)
		}
		if !job.Start.Equal(l.Start) || !job.End.Equal(l.End) {
			t.Errorf("Body(%d) = %s, want it from %s to %s", n, text, l.Start, l.End)
		}
	}
	if _, err := (workload.Limited{N: 1}).Body(1); err == nil {
		t.Error("Body without shapes = nil, want an error")
	}
	l.Target = "nowhere"
	if _, err := l.Body(1); err == nil {
		t.Error("Body with a bad target = nil, want an error")
	}
}
