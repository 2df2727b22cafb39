package node

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// The node's log, its metrics and its runs show that nothing was called.
func TestNoopIsSeen(t *testing.T) {
	for name, noop := range map[string]bool{"measured": true, "as it should be": false} {
		t.Run(name, func(t *testing.T) {
			url := sink(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("called")) })
			r := startWith(t, "a", newWorld(t, "a").opener("a"), nil, func(c *config.Config) { c.Executor.Noop = noop }).up()
			await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == http.StatusOK })
			if _, body := get(t, r.url+"/readyz"); strings.Contains(body, "executor: WARNING, noop: nothing is called\n") != noop {
				t.Errorf("/readyz with executor.noop %t:\n%s", noop, body)
			}
			gauge, output := "carillon_executor_noop 0\n", "called"
			if noop {
				gauge, output = "carillon_executor_noop 1\n", "noop"
			}
			if _, body := get(t, r.url+"/metrics"); !strings.Contains(body, gauge) {
				t.Errorf("/metrics with executor.noop %t lacks %q", noop, gauge)
			}
			run := r.awaitState(r.create(url, time.Time{}).ID, schema.StateSucceeded)
			if len(run.Attempts) == 0 || !strings.Contains(run.Attempts[0].Output, output) {
				t.Errorf("a run with executor.noop %t: %+v, want the output %q", noop, run.Attempts, output)
			}
		})
	}
}
