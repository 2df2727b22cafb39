package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"carillon.dev/carillon/loadtest/console"
)

// paged is a round of pages with these times.
func paged(system string, round int, overview, runs, upcoming Page) *Result {
	overview.Page, runs.Page, upcoming.Page = "Overview", "runs", string(console.Upcoming)
	return &Result{Protocol: pagesProtocol, System: system, Variant: "cold and warm", Round: round, Resident: 10_000_000, Pages: []Page{overview, runs, upcoming}}
}

func TestGoalsOfPages(t *testing.T) {
	quick := Page{Cold: 10, Warm: []float64{5, 6, 5}}
	slow := Page{Cold: 10, Warm: []float64{5, 1200, 5}}
	cold := Page{Cold: 700, Warm: []float64{5, 6}}
	for _, row := range []struct {
		name string
		all  []*Result
		row  string
		want string
	}{
		{"the slowest time of a round counts", []*Result{paged("carillon", 1, slow, quick, quick)}, "pages: the Overview", "| 1,200 ms (10,000,000 rows) | falls short |"},
		{
			"of rounds the median",
			[]*Result{paged("carillon", 1, slow, quick, quick), paged("carillon", 2, cold, quick, quick), paged("carillon", 3, quick, quick, quick)},
			"pages: the Overview", "| 700 ms; 1,200 ms of 3 (10,000,000 rows) | pass |",
		},
		{"runs", []*Result{paged("carillon", 1, slow, cold, quick)}, "pages: the first page of runs", "| 700 ms (10,000,000 rows) | pass |"},
		{"coming minutes", []*Result{paged("carillon", 1, quick, quick, cold)}, "pages: GET /v1/stats/upcoming", "| 700 ms (10,000,000 rows) | falls short |"},
		{"of carillon dev is another row", []*Result{paged("carillon-dev", 1, quick, quick, quick)}, "pages: the Overview", "not measured"},
		{"carillon dev", []*Result{paged("carillon-dev", 1, quick, quick, quick)}, "carillon dev: pages: the Overview", "| 10 ms (10,000,000 rows) | pass, aim reached |"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := table(t, row.all, row.row); !strings.Contains(got, row.want) {
				t.Errorf("row is %s\nwant %s in it", got, row.want)
			}
		})
	}
	var b bytes.Buffer
	r := paged("carillon", 1, cold, quick, quick)
	if err := WriteGoals(&b, []*Result{r, paged("carillon", 2, quick, quick, quick)}); err != nil {
		t.Fatal(err)
	}
	if want := "| Overview (carillon) | 10 M, 2 | 700, 700 | 5, 6 | 0 |"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
	if text := r.String(); !strings.Contains(text, "Overview: cold 700 ms, warm 6 ms, at most 6 ms") || strings.Contains(text, "cpu") {
		t.Errorf("the text is\n%s", text)
	}
}

// TestAPageIsAskedForColdAndWarm: once, then ten times more. One that is empty measures nothing.
func TestAPageIsAskedForColdAndWarm(t *testing.T) {
	var asked atomic.Int64
	items := ""
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, items) // the client sees it
	}))
	defer node.Close()
	row := pageRow{name: "jobs", view: console.Jobs, list: true}
	if _, err := row.ask(t.Context(), node.URL); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("ask of an empty list = %v, want it refused", err)
	}
	asked.Store(0)
	items = `{"id":"1"},{"id":"2"}`
	p, err := row.ask(t.Context(), node.URL)
	if err != nil || p.Cold <= 0 || len(p.Warm) != pagesWarm || p.Items != 2 || asked.Load() != 1+pagesWarm {
		t.Errorf("ask = %+v, %v after %d requests, want it cold and %d times warm, with 2 items", p, err, asked.Load(), pagesWarm)
	}
}

func TestPagesNeedRows(t *testing.T) {
	c := Config{Protocols: []string{pagesProtocol}, Resident: []int{0}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "want some for pages") {
		t.Errorf("Validate = %v, want the rows asked for", err)
	}
}
