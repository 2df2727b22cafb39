package chaos

import (
	"os"
	"testing"

	"carillon.dev/carillon/loadtest/alerts"
)

// Each scenario of alerts has a row in faults.yaml, and each row is of one.
func TestAlertsAreStated(t *testing.T) {
	f, err := os.Open("../../deploy/monitoring/faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	table, err := alerts.ReadTable(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Faults {
		if p, ok := Scenario(r.Scenario).Plan(); !ok || !p.Alerts {
			t.Errorf("faults.yaml has the scenario %q, which has no alerts", r.Scenario)
		}
	}
	n := 0
	for _, p := range Plans {
		if !p.Alerts {
			continue
		}
		n++
		if _, err := table.Of(string(p.Name)); err != nil {
			t.Error(err)
		}
		for _, k := range p.Load.Kinds(p.Load.Mix) {
			if k.Manner != "" && k.Manner != "work-200ms" {
				t.Errorf("%s has jobs that are answered by %q: only the fault is to be seen", p.Name, k.Manner)
			}
		}
	}
	if n != len(table.Faults) {
		t.Errorf("%d scenarios have alerts, faults.yaml has %d", n, len(table.Faults))
	}
}
