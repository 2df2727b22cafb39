package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
)

// TestQuestionsAreOfTheDocument: every path that is asked for is in the OpenAPI document.
func TestQuestionsAreOfTheDocument(t *testing.T) {
	text, err := httpapi.Document("")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	all := append([]question{who}, ofEveryView...)
	for _, questions := range views {
		all = append(all, questions...)
	}
	for _, q := range all {
		method := strings.ToLower(q.method)
		if method == "" {
			method = strings.ToLower(http.MethodGet)
		}
		if _, ok := doc.Paths[q.path][method]; !ok {
			t.Errorf("the document has no %s %s", method, q.path)
		}
	}
}

// page is where the page is, seen from here.
const page = "../../bucketer/httpapi/console"

func sourceOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(page, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNumbersAreThoseOfThePage: intervals and sizes stand in the sources of the page as they are
// repeated here. What they are used for the test in a browser sees.
func TestNumbersAreThoseOfThePage(t *testing.T) {
	for _, c := range []struct{ file, text string }{
		{"api/live.ts", "export const fast = 2000;"},
		{"api/live.ts", "export const steady = 5000;"},
		{"api/live.ts", "export const slow = 30_000;"},
		{"api/session.ts", "const every = 30_000;"},
		{"api/client.ts", "const patience = 20_000;"},
		{"api/minutes.ts", "const tailMinutes = 3;"},
		{"api/pages.ts", "calls: number | (() => boolean) = 5,"},
		{"latest.ts", "const mostOfSlice = 1000;"},
		{"latest.ts", "const shortest = 20;"},
		{"window.ts", "export const usualSpan = '15m';"},
		{"views/OverviewCharts.tsx", "const pastMinutes = 360;"},
		{"views/Runs.tsx", "const pageSize = 50;"},
		{"views/Runs.tsx", "const patience = 4000;"},
		{"views/Runs.tsx", "useRef(15_000)"},
		{"views/Runs.tsx", "limit: 500, cursor"},
		{"views/Runs.tsx", "calls: 24,"},
		{"views/Jobs.tsx", "const pageSize = 50;"},
		{"views/Job.tsx", "useRuns(job, 8)"},
		{"views/Job.tsx", "count: 10"},
	} {
		if !strings.Contains(sourceOf(t, "ui/src/"+c.file), c.text) {
			t.Errorf("%s says no more %q: views.go repeats it", c.file, c.text)
		}
	}
}

// TestFilesAreThoseOfThePage: what a browser loads is what the page names.
func TestFilesAreThoseOfThePage(t *testing.T) {
	var named []string
	for _, m := range regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(sourceOf(t, "dist/index.html"), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	if want := slices.Sorted(slices.Values(files[1:])); !slices.Equal(named, want) {
		t.Errorf("the page names %q, and %q are loaded", named, want)
	}
}

// TestKeys: a key says what is asked for, and not when or of which job.
func TestKeys(t *testing.T) {
	for address, want := range map[string]string{
		"http://h/v1/stats?from=2027-01-01T11:03:00.000Z&to=2027-01-01T12:03:00.000Z":            "GET /v1/stats from to 1h0m0s",
		"http://h/v1/stats/top?to=2027-01-01T12:03:00.000Z&by=job&from=2027-01-01T11:03:00.000Z": "GET /v1/stats/top by from to",
		"http://h/v1/jobs/018f3a5c-7d2e-7b1a-9c4d-0123456789ab/runs?limit=8":                     "GET /v1/jobs/{id}/runs limit",
		"http://h/v1/cluster": "GET /v1/cluster",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := KeyOf("GET", u); got != want {
			t.Errorf("KeyOf(%s) = %q, want %q", address, got, want)
		}
	}
}
