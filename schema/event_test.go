package schema_test

import (
	"testing"

	"carillon.dev/carillon/schema"
)

func TestSystemEvents(t *testing.T) {
	for name, want := range map[string]bool{
		"run.failed": true, "workflow.stuck": true, "dead_letter.created": true, "run.": true,
		"run": false, "runs": false, "file.uploaded": false, "runs.failed": false, "": false,
	} {
		if got := schema.IsSystemEvent(name); got != want {
			t.Errorf("IsSystemEvent(%q) = %v", name, got)
		}
	}
}
