package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// A target that fails again and again is listed as open, and closed by request.
func TestTargetsAreListedAndReset(t *testing.T) {
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(sink.Close)
	api := clitest.StartNode(t)
	for range 20 {
		clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL+"/hook")
	}
	deadline := time.Now().Add(time.Minute)
	open := ""
	for open == "" && time.Now().Before(deadline) {
		open = clitest.Succeed(t, "target", "list", "--api", api, "--state", "open", "-o", "json").Stdout
	}
	if got := clitest.Decode[httpapi.TargetOfTenant](t, open); got.Target != sink.URL || got.State != "open" || len(got.Nodes) != 1 {
		t.Fatalf("open targets are %q, want %s", open, sink.URL)
	}
	// runbooks send people here for it
	if got := clitest.Decode[httpapi.TargetOfTenant](t, open); !strings.Contains(got.LastError, "503") || got.LastFailedAt.IsZero() {
		t.Errorf("the last error of the target is %q of %v, want the answer 503", got.LastError, got.LastFailedAt)
	}
	if said := clitest.Succeed(t, "target", "list", "--api", api).Stdout; !strings.Contains(said, "LAST ERROR") || !strings.Contains(said, sink.URL) || !strings.Contains(said, "503") {
		t.Errorf("the table of targets is %q, want %s in it", said, sink.URL)
	}
	if said := clitest.Succeed(t, "target", "reset", "--api", api, sink.URL).Stderr; said != sink.URL+" is closed\n" {
		t.Errorf("after the reset it says %q", said)
	}
	if got := clitest.Run(t.Context(), "", "target", "reset", "--api", api, "http://none.test"); got.Code == 0 || !strings.Contains(got.Stderr, "http://none.test") {
		t.Errorf("reset of what nobody knows: %+v, want it named", got)
	}
}

// An executor that does not answer is named, because its targets are missing in the table.
func TestTargetsOfExecutorsThatDoNotAnswer(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := `{"items":[],"missing_nodes":["node-3"]}`
		if r.Method == http.MethodPost {
			text = `{"target":"https://a","state":"closed","nodes":[],"missing_nodes":["node-3"]}`
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(api.Close)
	for _, args := range [][]string{{"list"}, {"reset", "https://a"}} {
		said := clitest.Succeed(t, append([]string{"target", "--api", api.URL}, args...)...).Stderr
		if strings.Count(said, "node-3 did not answer") != 1 {
			t.Errorf("target %v says %q, want that node-3 did not answer", args, said)
		}
	}
}
