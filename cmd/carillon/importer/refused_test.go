package importer

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// TestLinesThatWereSurelyNotTakenInAreSentAgain: also those without a key. Only what may stand is
// unknown.
func TestLinesThatWereSurelyNotTakenInAreSentAgain(t *testing.T) {
	answers := []string{"not-served", "not-everywhere", "not-ready", "unknown"}
	bodies := make(chan string, 10)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the import: %v", err)
		}
		first := len(bodies) == 0
		bodies <- string(text)
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines := strings.Count(string(text), "\n")
		for i := range lines {
			if first {
				_, _ = fmt.Fprintf(w, `{"line":%d,"status":503,"error":{"type":"urn:carillon:problem:%s","title":"t","status":503}}`+"\n", i+1, answers[i])
				continue
			}
			_, _ = fmt.Fprintf(w, `{"line":%d,"id":"01932e5a-7c00-8003-8d2f-5a1b9c3e7f60","status":201}`+"\n", i+1)
		}
		_, _ = fmt.Fprintf(w, `{"summary":{"lines":%d}}`+"\n", lines)
	}))
	defer api.Close()
	var text strings.Builder
	for i := range answers {
		fmt.Fprintf(&text, `{"nats":{"subject":"a"},"payload":%d}`+"\n", i)
	}
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := clitest.Run(t.Context(), "", "import", "--api", api.URL, "--parallel", "1", "-o", "json", file)
	if sum := clitest.Decode[summary](t, r.Stdout); r.Code != 1 || sum.Created != 3 || sum.Unknown != 1 || sum.Failed != 0 {
		t.Errorf("import exits %d and answers %+v, want 1, three created, one unknown\n%s", r.Code, sum, r.Stderr)
	}
	<-bodies
	if again := <-bodies; strings.Count(again, "\n") != 3 || strings.Contains(again, `"payload":3`) {
		t.Errorf("sent again were\n%swant all but the one that may stand", again)
	}
}
