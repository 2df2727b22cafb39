package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// exporter serves a history of so many answers of two lines each. It refuses the answer that breaks
// says, once.
type exporter struct {
	answers int
	breaks  atomic.Int64
	asked   atomic.Int64
}

func (x *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.URL.Query().Get("cursor")) // none: 0
	x.asked.Add(1)
	if int64(at) == x.breaks.Load() {
		x.breaks.Store(-1)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"title":"Not now","status":403}`) // the test sees it
		return
	}
	if at+1 < x.answers {
		w.Header().Set("Carillon-Next-Cursor", strconv.Itoa(at+1))
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = fmt.Fprintf(w, "{\"id\":\"%d a\"}\n{\"id\":\"%d b\"}\n", at, at) // the test sees it
}

func export(t *testing.T, answers int) (*exporter, string) {
	t.Helper()
	x := &exporter{answers: answers}
	x.breaks.Store(-1)
	hs := httptest.NewServer(x)
	t.Cleanup(hs.Close)
	return x, hs.URL
}

// fail runs a command line that must not exit 0, and returns what it says.
func fail(t *testing.T, args ...string) string {
	t.Helper()
	r := clitest.Run(t.Context(), "", args...)
	if r.Code == 0 {
		t.Fatalf("carillon %s exits 0\n%s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
	}
	return r.Stderr
}

func linesOf(answers int) string {
	var all strings.Builder
	for n := range answers {
		_, _ = fmt.Fprintf(&all, "{\"id\":\"%d a\"}\n{\"id\":\"%d b\"}\n", n, n)
	}
	return all.String()
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name) // #nosec G304 -- the test made it
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHistoryIsExported(t *testing.T) {
	x, api := export(t, 3)
	if out := clitest.Succeed(t, "history", "export", "--api", api, "--day", "2026-11-20").Stdout; out != linesOf(3) {
		t.Errorf("history export prints %q, want %q", out, linesOf(3))
	}
	file := filepath.Join(t.TempDir(), "runs.ndjson")
	args := []string{"history", "export", "--api", api, "--day", "2026-11-20", "--out", file}
	clitest.Succeed(t, args...)
	if got := fileText(t, file); got != linesOf(3) {
		t.Errorf("the file is %q, want %q", got, linesOf(3))
	}
	if rest, _ := filepath.Glob(file + ".*"); len(rest) != 0 {
		t.Errorf("%q is left beside the file", rest)
	}
	// What is complete is left as it is.
	asked := x.asked.Load()
	if out := clitest.Succeed(t, args...); !strings.Contains(out.Stderr, "left as it is") || x.asked.Load() != asked {
		t.Errorf("a second export says %q, and asks %d times", out.Stderr, x.asked.Load()-asked)
	}
}

// TestAnExportGoesOn: after any answer, with whatever was written beyond what is known to be there,
// each line is in the file once.
func TestAnExportGoesOn(t *testing.T) {
	for broken := range 4 {
		for _, torn := range []string{"", `{"id":"half`, "{\"id\":\"whole\"}\n"} {
			x, api := export(t, 4)
			x.breaks.Store(int64(broken))
			file := filepath.Join(t.TempDir(), "runs.ndjson")
			args := []string{"history", "export", "--api", api, "--day", "2026-11-20", "--out", file}
			fail(t, args...)
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600) // #nosec G304 -- the test made it
			if err == nil {
				_, err = f.WriteString(torn)
			}
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			clitest.Succeed(t, args...)
			if got := fileText(t, file); got != linesOf(4) || x.asked.Load() != 5 {
				t.Errorf("broken off at answer %d, with %q: the file is %q after %d requests, want each line once after 5", broken, torn, got, x.asked.Load())
			}
		}
	}
}

func TestAnExportThatCannotGoOn(t *testing.T) {
	x, api := export(t, 3)
	dir := t.TempDir()
	file := filepath.Join(dir, "runs.ndjson")
	args := []string{"history", "export", "--api", api, "--out", file, "--day"}
	x.breaks.Store(2)
	fail(t, append(args, "2026-11-20")...)
	if out := fail(t, append(args, "2026-11-19")...); !strings.Contains(out, "is of 2026-11-20") {
		t.Errorf("an export of another day to it says %q", out)
	}
	before := fileText(t, file)
	for text, want := range map[string]string{"": "does not say", `{"size":-1}`: "does not say", `{"day":"2026-11-20","size":1000,"cursor":"2"}`: "is shorter"} {
		if err := os.WriteFile(file+".cursor", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := fail(t, append(args, "2026-11-20")...); !strings.Contains(out, want) || fileText(t, file) != before {
			t.Errorf("an export that goes on from %q says %q, want %q", text, out, want)
		}
	}
}

// TestDaysOfAnExport: yesterday is that of UTC, wherever one is.
func TestDaysOfAnExport(t *testing.T) {
	now := time.Date(2026, 11, 21, 1, 0, 0, 0, time.FixedZone("east", 2*60*60)) // the 20th in UTC
	for day, want := range map[string]string{"": "2026-11-19", "Yesterday": "2026-11-19", "2026-11-01": "2026-11-01", "x": "x"} {
		if got := dayInUTC(day, now); got != want {
			t.Errorf("%q is %s, want %s", day, got, want)
		}
	}
}
