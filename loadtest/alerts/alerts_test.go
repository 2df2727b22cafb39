package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const monitoring = "../../deploy/monitoring"

func TestFaster(t *testing.T) {
	const text = `# over [5m]
      - alert: A
        expr: >-
          sum(rate(a{b=~"x|y"}[5m])) > 60 and b offset 1h unless c[1d]
        for: 2m
        labels: {window: 1h}
        annotations:
          summary: 'of the last [5m]'
`
	got, err := Faster(text, 10)
	want := strings.NewReplacer(`"}[5m]`, `"}[30s]`, "offset 1h", "offset 360s", "c[1d]", "c[8640s]", "for: 2m", "for: 12s").Replace(text)
	if err != nil || got != want {
		t.Errorf("Faster = %v\n%s\nwant\n%s", err, got, want)
	}
	for _, factor := range []int{0, 7, 1000} {
		if _, err := Faster(text, factor); err == nil {
			t.Errorf("Faster by %d = nil, want it refused", factor)
		}
	}
}

// rule is what a rule says.
type rule struct {
	Record, Alert, Expr, For string
	Labels                   map[string]string
}

func rulesOf(t *testing.T, text string) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// The rules of the repository are the same ones when they are faster, but for spans, each of which
// is shorter.
func TestFasterRulesAreTheSameRules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(monitoring, "rules", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files of rules, %v, want 3 or more", len(files), err)
	}
	span := regexp.MustCompile(`\[\d+[smhd]\]|offset \d+[smhd]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		faster, err := Faster(string(text), 10)
		if err != nil {
			t.Fatal(err)
		}
		before, after := rulesOf(t, string(text)), rulesOf(t, faster)
		if len(before) != len(after) || len(before) == 0 {
			t.Fatalf("%s has %d rules, faster %d", file, len(before), len(after))
		}
		for i, b := range before {
			a := after[i]
			if span.ReplaceAllString(a.Expr, "") != span.ReplaceAllString(b.Expr, "") || a.Record+a.Alert != b.Record+b.Alert || a.Labels["severity"] != b.Labels["severity"] {
				t.Errorf("%s%s is\n%s\nfaster\n%s", b.Record, b.Alert, b.Expr, a.Expr)
			}
			for j, s := range span.FindAllString(b.Expr, -1) {
				if s == span.FindAllString(a.Expr, -1)[j] {
					t.Errorf("%s%s has %s, faster too", b.Record, b.Alert, s)
				}
			}
			if b.For != "" && a.For == b.For {
				t.Errorf("%s waits for %s, faster too", b.Alert, b.For)
			}
		}
	}
}

// Each alert is one that a fault must fire, or is named as untried, and there are no others.
func TestEachAlertIsInTheTable(t *testing.T) {
	f, err := os.Open(filepath.Join(monitoring, "faults.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	table, err := ReadTable(f)
	if err != nil {
		t.Fatal(err)
	}
	must, named := make(map[string]bool), make(map[string]bool)
	for _, r := range table.Faults {
		if r.Fault == "" || len(r.Must) == 0 && r.Fault != "none" {
			t.Errorf("%s: fault %q, %d alerts, want both", r.Scenario, r.Fault, len(r.Must))
		}
		for alert, why := range r.Must {
			must[alert], named[alert] = true, true
			if _, both := r.May[alert]; both || why == "" {
				t.Errorf("%s: %s must and may (%t), why %q", r.Scenario, alert, both, why)
			}
		}
		for alert, why := range r.May {
			if named[alert] = true; why == "" {
				t.Errorf("%s does not say why %s may fire", r.Scenario, alert)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(monitoring, "rules", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rulesOf(t, string(text)) {
			if r.Alert == "" {
				continue
			}
			alerts[r.Alert] = true
			if _, untried := table.Untried[r.Alert]; untried == must[r.Alert] && (untried || !named[r.Alert]) {
				t.Errorf("%s: a fault must fire it (%t), untried (%t), want one of both", r.Alert, must[r.Alert], untried)
			}
		}
	}
	for alert := range table.Untried {
		named[alert] = true
	}
	for alert := range named {
		if !alerts[alert] {
			t.Errorf("there is no alert %s", alert)
		}
	}
}

func TestJudge(t *testing.T) {
	row := Row{Scenario: "s", Must: map[string]string{"A": "it broke", "B": "it broke"}, May: map[string]string{"C": "perhaps"}}
	fired := func(names ...string) (all []Fired) {
		for _, n := range names {
			all = append(all, Fired{Alert: n})
		}
		return all
	}
	for _, c := range []struct {
		fired []Fired
		want  []string // parts of the faults
	}{
		{fired("A", "B"), nil},
		{fired("A", "B", "C", "A"), nil},
		{fired("A", "C"), []string{"B did not fire: it broke"}},
		{fired("A", "B", "D", "D"), []string{"D fired"}},
		{nil, []string{"A did not", "B did not"}},
	} {
		got := row.Judge(c.fired)
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("Judge(%v) = %q, want %q", c.fired, got, c.want)
		}
	}
	if got := (Row{}).Judge(fired("A")); len(got) != 1 {
		t.Errorf("a row that allows nothing: Judge = %q, want a fault", got)
	}
	if got := []string{row.Expects("A"), row.Expects("C"), row.Expects("D")}; !slices.Equal(got, []string{"must", "may", "must not"}) {
		t.Errorf("Expects = %q", got)
	}
}

func TestReadTable(t *testing.T) {
	for _, text := range []string{"", "faults: []", "faults: [{scenario: a, musst: {}}]"} {
		if got, err := ReadTable(strings.NewReader(text)); err == nil {
			t.Errorf("ReadTable(%q) = %v, want an error", text, got)
		}
	}
	table, err := ReadTable(strings.NewReader("faults: [{scenario: a, fault: none, must: {}, may: {}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Of("a"); err != nil {
		t.Error(err)
	}
	if _, err := table.Of("b"); err == nil {
		t.Error("Of(b) = nil, want an error")
	}
}
