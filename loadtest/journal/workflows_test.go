package journal_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/loadtest/journal"
)

func TestWorkflowsAndTriggersAreReadBack(t *testing.T) {
	var put, asked bytes.Buffer
	w := workflows.Workflow{Name: "w", Definition: workflows.Definition{Steps: []workflows.Step{
		{Name: "s1", HTTP: &workflows.Target{URL: "http://h/w/1"}, Retry: &workflows.Retry{MaxAttempts: 3}},
		{Name: "s2", After: []string{"s1"}, When: "all_done", If: "input.n % 2 == 0", Wait: &workflows.Wait{For: check.Span(5)}},
	}}}
	triggers := []workflows.Trigger{
		{Ref: check.Ref{Source: "w", Line: 1}, Payload: []byte(`{"n":1}`), Requested: t0, Acked: t0.Add(5), Run: "r1"},
		{Ref: check.Ref{Source: "w", Line: 2}, Payload: []byte(`{"n":2}`), Requested: t0},
	}
	if err := journal.WriteLine(&put, w); err != nil {
		t.Fatal(err)
	}
	for _, tr := range triggers {
		if err := journal.WriteLine(&asked, tr); err != nil {
			t.Fatal(err)
		}
	}
	got, err := journal.ReadWorkflows(&put)
	if diff := cmp.Diff([]workflows.Workflow{w}, got); err != nil || diff != "" {
		t.Errorf("ReadWorkflows = %v (-want +got):\n%s", err, diff)
	}
	read, err := journal.ReadTriggers(&asked)
	if diff := cmp.Diff(triggers, read); err != nil || diff != "" {
		t.Errorf("ReadTriggers = %v (-want +got):\n%s", err, diff)
	}
}
