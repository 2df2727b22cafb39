package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The rules that are written are the same ones, but that runbook_url leads to an address.
func TestWriteRules(t *testing.T) {
	const wiki = "https://wiki.example.com/carillon/runbooks"
	to := filepath.Join(t.TempDir(), "rules")
	if err := WriteRules(filepath.Join(top, "rules"), to, wiki); err != nil {
		t.Fatal(err)
	}
	want, _ := rules(t)
	text, err := os.ReadFile(filepath.Join(to, "kubernetes", "rules.yaml"))
	if err != nil || !strings.Contains(string(text), "kind: PrometheusRule") || strings.Contains(string(text), Runbooks) {
		t.Errorf("kubernetes/rules.yaml: %v, want an object whose runbooks are at %s", err, wiki)
	}
	got, err := ReadRules(to)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d rules were written, %v, want %d", len(got), err, len(want))
	}
	for i, r := range got {
		if r.Expr != want[i].Expr || r.Alert != want[i].Alert {
			t.Errorf("%s%s is %s, want %s", r.Record, r.Alert, r.Expr, want[i].Expr)
		}
		if at := r.Annotations["runbook_url"]; r.Alert != "" && at != wiki+"#"+strings.ToLower(r.Alert) {
			t.Errorf("%s has the runbook %q, want it below %s", r.Alert, at, wiki)
		}
	}
	for _, at := range []string{"", "deploy/RUNBOOKS.md", "/runbooks", "https://wiki.example.com/#a"} {
		if err := WriteRules(filepath.Join(top, "rules"), to, at); err == nil {
			t.Errorf("WriteRules with runbooks at %q = nil, want an error", at)
		}
	}
}
