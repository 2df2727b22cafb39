package journal_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

// The states are read while a chaos run still writes them.
func TestStatesAreReadBackWhileTheyAreWritten(t *testing.T) {
	var b bytes.Buffer
	want := []check.Watched{{Run: "r1", State: check.Running, At: t0}, {Run: "r1", State: check.Succeeded, At: t0.Add(5)}}
	for _, look := range want {
		if err := journal.WriteLine(&b, look); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString(`{"run":"r2","sta`)
	got, err := journal.ReadWatched(&b)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ReadWatched = %v (-want +got):\n%s", err, diff)
	}
	if _, err := journal.ReadWatched(bytes.NewBufferString("{\n")); err == nil {
		t.Error("ReadWatched of a bad line = nil, want an error")
	}
}
