package chaos

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// FAULTS.md has a row for each fault, in order, and names scenarios that there are; each scenario
// of a steady load is in it, but for those of alerts: faults.yaml has them.
func TestFaultsAreInTheTable(t *testing.T) {
	text, err := os.ReadFile("../FAULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	named := map[Scenario]bool{}
	scenario := regexp.MustCompile("`S ([a-z-]+)`")
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| F") {
			continue
		}
		if want := fmt.Sprintf("| F%d | ", next); !strings.HasPrefix(line, want) {
			t.Errorf("row %.20q, want %q", line, want)
		}
		next++
		if cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); cells != 7 {
			t.Errorf("row %.20q has %d bars, want 7", line, cells)
		}
		for _, m := range scenario.FindAllStringSubmatch(line, -1) {
			named[Scenario(m[1])] = true
			if _, ok := Scenario(m[1]).Plan(); !ok {
				t.Errorf("row %.20q names %q, and there is no such scenario", line, m[1])
			}
		}
	}
	if next != 47 {
		t.Errorf("FAULTS.md ends with F%d, want F46", next-1)
	}
	for _, p := range Plans {
		if p.Load != nil && !p.Alerts && !named[p.Name] {
			t.Errorf("FAULTS.md does not name %s", p.Name)
		}
	}
}
