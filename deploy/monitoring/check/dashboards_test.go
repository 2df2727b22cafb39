package check

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"carillon.dev/carillon/deploy/monitoring/check/dashboards"
)

func committed(t *testing.T) []Dashboard {
	t.Helper()
	all, err := ReadDashboards(filepath.Join(top, "dashboards"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 8 {
		t.Fatalf("%d dashboards are committed, want 8", len(all))
	}
	return all
}

// TestDashboardsAreGenerated: the files are what the code makes, and there are no others.
func TestDashboardsAreGenerated(t *testing.T) {
	made := make(map[string]bool)
	for _, d := range dashboards.All() {
		want, err := d.Render()
		if err != nil {
			t.Fatal(err)
		}
		name := d.UID + ".json"
		made[name] = true
		got, err := os.ReadFile(filepath.Join(top, "dashboards", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("dashboards/%s is not what the code makes (%v): make dashboards", name, err)
		}
	}
	for _, d := range committed(t) {
		if !made[d.File] {
			t.Errorf("dashboards/%s is made by no code", d.File)
		}
	}
}

// TestDashboardsAskForWhatExists: every query is understood, of metrics and labels that exist, and
// chooses by the variables at the top.
func TestDashboardsAskForWhatExists(t *testing.T) {
	known := metrics(t)
	_, recorded := rules(t)
	for _, d := range committed(t) {
		queries := 0
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				queries++
				for _, fault := range ExprFaults(known, recorded, Choose(target.Expr, "1h", "1m", "a")) {
					t.Errorf("%s, %s: %s", d.Title, p.Title, fault)
				}
				if strings.Contains(target.Expr, "{$") || strings.Contains(target.Expr, "{#") || !strings.Contains(target.Expr, "$cluster") {
					t.Errorf("%s, %s: does not choose: %s", d.Title, p.Title, target.Expr)
				}
			}
		}
		if queries < 10 {
			t.Errorf("%s has %d queries: it was not understood", d.Title, queries)
		}
	}
}

// TestEveryMetricIsOnAPanel, or listed as left out with a reason.
func TestEveryMetricIsOnAPanel(t *testing.T) {
	known := metrics(t)
	shown := make(map[string]bool)
	for _, d := range committed(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				parsed, err := parser.NewParser(parser.Options{}).ParseExpr(Choose(target.Expr, "1h", "1m", "a"))
				if err != nil {
					continue // TestDashboardsAskForWhatExists says so
				}
				parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
					if s, ok := node.(*parser.VectorSelector); ok {
						shown[s.Name] = true
						for _, suffix := range []string{"_bucket", "_sum", "_count"} {
							if base, cut := strings.CutSuffix(s.Name, suffix); cut && (known[base].Type == "histogram" || known[base].Type == "summary") {
								shown[base] = true
							}
						}
					}
					return nil
				})
			}
		}
	}
	used := make(map[string]bool)
	for name := range known {
		if shown[name] {
			continue
		}
		found := false
		for pattern := range LeftOut {
			prefix, many := strings.CutSuffix(pattern, "*")
			if name == pattern || many && strings.HasPrefix(name, prefix) {
				found, used[pattern] = true, true
			}
		}
		if !found {
			t.Errorf("%s is on no panel, and LeftOut does not say why", name)
		}
	}
	for pattern := range LeftOut {
		if !used[pattern] {
			t.Errorf("LeftOut has %s, which is on a panel or does not exist", pattern)
		}
	}
}

// TestPanelsAreWhole: a dashboard opens with how it is read and its answer; each panel says what it
// shows, in which unit; the lines of a panel have names; nothing lies over anything else.
func TestPanelsAreWhole(t *testing.T) {
	uids, titles := make(map[string]bool), make(map[string]bool)
	for _, d := range committed(t) {
		if d.File != d.UID+".json" || uids[d.UID] || titles[d.Title] {
			t.Errorf("%s: uid %s and title %s must be its own, and the uid its name", d.File, d.UID, d.Title)
		}
		uids[d.UID], titles[d.Title] = true, true
		if len(d.Panels) < 6 || d.Panels[0].Type != "text" || d.Panels[1].Type != "stat" || !strings.HasSuffix(d.Panels[1].Title, "?") {
			t.Errorf("%s does not open with a text and a question that is answered", d.Title)
		}
		inside := make(map[string]bool)
		cells := make(map[[2]int]string)
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if before := cells[[2]int{x, y}]; before != "" || x >= 24 {
						t.Fatalf("%s: %s lies over %q, or beyond the edge", d.Title, p.Title, before)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || inside[p.Title] {
				t.Errorf("%s, %s: wants a description, and a title of its own", d.Title, p.Title)
			}
			inside[p.Title] = true
			if p.Type == "text" {
				continue
			}
			if len(p.Targets) == 0 || p.Type != "heatmap" && p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s, %s: wants queries and a unit", d.Title, p.Title)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "${datasource}" || p.Type == "timeseries" && target.LegendFormat == "" {
					t.Errorf("%s, %s: wants the data source that is chosen, and names for its lines", d.Title, p.Title)
				}
			}
		}
		for _, v := range []string{"datasource", "cluster", "job", "instance"} {
			if !slices.ContainsFunc(d.Templating.List, func(of struct {
				Name  string
				Query any
			},
			) bool {
				return of.Name == v
			}) {
				t.Errorf("%s has no variable %s", d.Title, v)
			}
		}
	}
}

var (
	quotedPanel = regexp.MustCompile(`[Pp]anel "([^"]+)" of \*([^*]+)\*`)
	italics     = regexp.MustCompile(`\*\*Look at\.\*\*.*`)
	ofBoard     = regexp.MustCompile(`(?:^|[^*])\*([A-Z][A-Za-z, ?]*)\*(?:[^*]|$)`)
)

// TestAlertsLeadToDashboards: the dashboard that an alert names exists, and the panels and
// dashboards that runbooks name.
func TestAlertsLeadToDashboards(t *testing.T) {
	uids := make(map[string]bool)
	panels := make(map[string]map[string]bool)
	for _, d := range committed(t) {
		title := strings.TrimPrefix(d.Title, "Carillon: ")
		uids[d.UID], panels[title] = true, make(map[string]bool)
		for _, p := range d.Panels {
			panels[title][p.Title] = true
		}
	}
	all, _ := rules(t)
	for _, r := range all {
		if name := r.Annotations["dashboard"]; r.Alert != "" && !uids[name] {
			t.Errorf("%s names the dashboard %q, which does not exist", r.Alert, name)
		}
	}
	books, err := os.ReadFile(filepath.Join(top, "RUNBOOKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted, named := 0, 0
	for _, found := range quotedPanel.FindAllStringSubmatch(string(books), -1) {
		if quoted++; !panels[found[2]][found[1]] {
			t.Errorf("RUNBOOKS.md names the panel %q of %s, which does not exist", found[1], found[2])
		}
	}
	for _, line := range italics.FindAllString(string(books), -1) {
		for _, found := range ofBoard.FindAllStringSubmatch(line, -1) {
			if named++; panels[found[1]] == nil {
				t.Errorf("RUNBOOKS.md names the dashboard %q, which does not exist: %s", found[1], line)
			}
		}
	}
	if quoted < 3 || named < 15 {
		t.Errorf("RUNBOOKS.md names %d panels and %d dashboards: it was not understood", quoted, named)
	}
}
