package check

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The rules for the Prometheus operator are those of deploy/monitoring/rules, all of them, and the
// file is what the code makes.
func TestKubernetesHasTheSameRules(t *testing.T) {
	want, err := PrometheusRule(filepath.Join(top, "rules"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(top, KubernetesRules))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code makes (%v): make dashboards", KubernetesRules, err)
	}
	var object struct {
		Kind string
		Spec struct{ Groups []struct{ Rules []Rule } }
	}
	if err := yaml.Unmarshal(want, &object); err != nil {
		t.Fatal(err)
	}
	var of []Rule
	for _, g := range object.Spec.Groups {
		of = append(of, g.Rules...)
	}
	all, _ := rules(t)
	for i := range all {
		all[i].File = ""
	}
	if object.Kind != "PrometheusRule" || !reflect.DeepEqual(of, all) {
		t.Errorf("%s has %d rules, want the %d of rules/*.yaml, alike", object.Kind, len(of), len(all))
	}
}
