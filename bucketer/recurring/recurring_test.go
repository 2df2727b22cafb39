package recurring

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestJobFilterMatches(t *testing.T) {
	job := schema.Job{Current: schema.Generation{State: schema.JobActive, Spec: schema.JobSpec{
		Name: "nightly-report", Labels: map[string]string{"team": "billing", "empty": ""},
	}}}
	for name, row := range map[string]struct {
		filter JobFilter
		want   bool
	}{
		"all":                    {JobFilter{}, true},
		"its state":              {JobFilter{State: schema.JobActive}, true},
		"another state":          {JobFilter{State: schema.JobPaused}, false},
		"its label":              {JobFilter{Label: "team", Value: "billing"}, true},
		"another value":          {JobFilter{Label: "team", Value: "sales"}, false},
		"a label without value":  {JobFilter{Label: "empty"}, true},
		"a label it has not":     {JobFilter{Label: "x"}, false},
		"how its name begins":    {JobFilter{NamePrefix: "nightly-"}, true},
		"its name":               {JobFilter{NamePrefix: "nightly-report"}, true},
		"more than its name":     {JobFilter{NamePrefix: "nightly-report-2"}, false},
		"another name":           {JobFilter{NamePrefix: "x"}, false},
		"all of it":              {JobFilter{NoWorkflows, schema.JobActive, "team", "billing", "n"}, true},
		"all but one field":      {JobFilter{NoWorkflows, schema.JobActive, "team", "billing", "x"}, false},
		"no workflow":            {JobFilter{Kind: NoWorkflows}, true},
		"a workflow":             {JobFilter{Kind: OnlyWorkflows}, false},
		"the middle of its name": {JobFilter{NamePrefix: "report"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := row.filter.Matches(&job); got != row.want {
				t.Errorf("%+v.Matches = %t, want %t", row.filter, got, row.want)
			}
		})
	}
}

// in selects runs of these states.
func in(states ...schema.State) runs.Filter { return runs.Filter{States: states} }

func TestJobRunFilterMatches(t *testing.T) {
	due := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	line := schema.JobRun{Run: schema.MakeEntryID(due, 3, 1), State: schema.StateFailed}
	for name, row := range map[string]struct {
		filter JobRunFilter
		want   bool
	}{
		"all":           {JobRunFilter{}, true},
		"its state":     {JobRunFilter{Filter: in(schema.StateFailed)}, true},
		"one of two":    {JobRunFilter{Filter: in(schema.StateMissed, schema.StateFailed)}, true},
		"another state": {JobRunFilter{Filter: in(schema.StateSucceeded)}, false},
		"from its time": {JobRunFilter{From: due}, true},
		"to its time":   {JobRunFilter{To: due}, false},
		"around it":     {JobRunFilter{From: due.Add(-1), To: due.Add(1)}, true},
		"after it":      {JobRunFilter{From: due.Add(time.Millisecond)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := row.filter.MatchesLine(&line); got != row.want {
				t.Errorf("%+v.MatchesLine = %t, want %t", row.filter, got, row.want)
			}
		})
	}
}
