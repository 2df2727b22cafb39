package client

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

func TestWhatStartsARunIsSaid(t *testing.T) {
	on := &schema.EventTrigger{Event: "file.uploaded"}
	for want, j := range map[string]httpapi.Job{
		"once":             {},
		"on file.uploaded": {On: on},
		"after a, b":       {After: &httpapi.JobAfter{Jobs: []string{"a", "b"}}},
		"after a, b, c, …": {After: &httpapi.JobAfter{Jobs: []string{"a", "b", "c", "d"}}},
		"every 15m":        {Schedule: httpapi.JobSchedule{Every: schema.Duration(15 * time.Minute)}},
	} {
		if got := scheduleOf(&j); got != want {
			t.Errorf("scheduleOf = %q, want %q", got, want)
		}
	}
	for want, w := range map[string]httpapi.Workflow{"when triggered": {}, "on file.uploaded": {On: on}} {
		if got := workflowSchedule(&w); got != want {
			t.Errorf("workflowSchedule = %q, want %q", got, want)
		}
	}
}
