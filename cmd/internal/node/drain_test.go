package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// The configured drain time-out reaches the executor.
func TestDrainTimeoutEndsACallThatHangs(t *testing.T) {
	called, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) {
		// a handler must read the body to notice that the caller hangs up
		_, _ = io.Copy(io.Discard, r.Body)
		called <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	const drain = time.Second
	r := startWith(t, "a", newWorld(t, "a").opener("a"), nil, func(c *config.Config) { c.Executor.DrainTimeout = drain }).up()
	r.create(url, time.Time{})
	<-called
	told := time.Now()
	r.end()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the call does not end")
	}
	// By default it would be half a minute.
	if took := time.Since(told); took < drain || took > config.Default().Executor.DrainTimeout*2/3 {
		t.Errorf("a call that hangs ended %v after the node was told to stop, want it after the drain time-out of %v", took, drain)
	}
	r.stop()
}

// The configured size of outputs reaches the executor and its targets.
func TestMaxOutputCutsWhateverRan(t *testing.T) {
	long := strings.Repeat("x", 2000) // so little that nobody but its target cuts it
	list := filepath.Join(t.TempDir(), "scripts.yaml")
	text := "commands:\n  print: {path: /bin/echo, args: [-n, " + long + "]"
	if os.Geteuid() == 0 {
		text += ", user: root"
	}
	if err := os.WriteFile(list, []byte(text+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		most, want int
		cut        bool
	}{
		"as it is set": {1000, 1000, true},
		"by default":   {config.Default().Executor.MaxOutput, len(long), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			url := sink(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) })
			asked := make(chan string, 1)
			t.Cleanup(w.broker.Serve("work.print", func(_ context.Context, headers map[string]string, _ []byte) ([]byte, map[string]string) {
				asked <- headers["Carillon-Max-Output"]
				return []byte(long), nil
			}))
			works := map[string]schema.Work{
				"http": {HTTP: &schema.HTTPTarget{URL: url}},
				"nats": {NATS: &schema.NATSTarget{Subject: "work.print"}},
			}
			r := startWith(t, "a", w.opener("a"), nil, func(cfg *config.Config) {
				cfg.Executor.MaxOutput = c.most
				if runtime.GOOS == "linux" {
					cfg.Executor.Scripts = list
					works["script"] = schema.Work{Script: &schema.ScriptTarget{Command: "print"}}
				}
			}).up()
			for kind, work := range works {
				job, err := r.client().CreateJob(t.Context(), request.JobRequest{Key: uuid.NewString(), Work: work})
				if err != nil {
					t.Fatalf("%s: CreateJob = %v", kind, err)
				}
				run := r.awaitState(job.ID, schema.StateSucceeded)
				if a := run.Attempts[0]; a.Output != long[:c.want] || a.OutputCut != c.cut {
					t.Errorf("%s: max_output %d keeps %d bytes of %d, cut %v; want %d, cut %v", kind, c.most, len(a.Output), len(long), a.OutputCut, c.want, c.cut)
				}
			}
			if got := <-asked; got != fmt.Sprint(c.most) {
				t.Errorf("a worker was told to send at most %s bytes, want %d", got, c.most)
			}
		})
	}
}
