package node

import (
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// An executor that is told to stop ends the attempts that it can, and leaves the others to another
// executor. The node with bucketer and dispatcher keeps running.
func TestTourOfStops(t *testing.T) {
	onBothGrounds(t, func(t *testing.T, g ground) {
		log := logOfTour(t)
		members := []ring.Member{
			{Name: "api", Incarnation: 1, Roles: []string{config.Bucketer, config.Dispatcher}},
			{Name: "x", Incarnation: 1, Roles: []string{config.ExecutorR}},
			{Name: "y", Incarnation: 1, Roles: []string{config.ExecutorR}},
		}
		begin := func(t *testing.T, m ring.Member, log *slog.Logger, drain time.Duration) *running {
			t.Helper()
			return startWith(t, m.Name, g.open(t, tourKeyspace, m.Name, log, members...), log, func(c *config.Config) {
				c.Roles, c.Executor.DrainTimeout = m.Roles, drain
			}).up().tourist()
		}
		api := begin(t, members[0], log, time.Second)

		t.Run("what ends within the drain time-out is brought to its end", func(t *testing.T) {
			log, stopping := listenFor("node is stopping")
			x, api := begin(t, members[1], log, patience), api.in(t)
			called, release, over := make(chan struct{}, 8), make(chan struct{}, 8), make(chan struct{})
			url := sink(t, func(http.ResponseWriter, *http.Request) {
				called <- struct{}{}
				select {
				case <-release:
				case <-over:
				}
			})
			t.Cleanup(func() { close(over) }) // before the sink is closed, whatever fails
			job := api.create(url, time.Time{})
			pass(t, "the call comes", called)
			x.end()
			pass(t, "the node is told to stop", stopping)
			release <- struct{}{}
			x.stop()
			run := api.awaitState(job.ID, schema.StateSucceeded)
			if attempted(t, run, schema.Succeeded); run.Attempts[0].Executor != "x" || len(called) != 0 {
				t.Errorf("run = %+v after %d calls, want one by x", run, 1+len(called))
			}
		})

		t.Run("what goes on is cut short and left to another", func(t *testing.T) {
			x, api := begin(t, members[1], log, 200*time.Millisecond), api.in(t)
			var well atomic.Bool
			called, gone, over := make(chan string, 8), make(chan struct{}, 8), make(chan struct{})
			url := sink(t, func(_ http.ResponseWriter, r *http.Request) {
				// the end of a request is seen only once its body was read
				_, _ = io.Copy(io.Discard, r.Body)
				called <- r.Header.Get("Idempotency-Key")
				if well.Load() {
					return
				}
				select {
				case <-r.Context().Done():
					gone <- struct{}{}
				case <-over:
				}
			})
			t.Cleanup(func() { close(over) }) // before the sink is closed, whatever fails
			ask := func(g schema.Guarantee) schema.JobID {
				return api.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Guarantee: g}}).ID
			}
			least, most := ask(schema.AtLeastOnce), ask(schema.AtMostOnce)
			for range 2 {
				pass(t, "both calls come", called)
			}
			well.Store(true)
			x.stop()
			for range 2 {
				pass(t, "both callers go", gone)
			}
			begin(t, members[2], log, time.Second)
			run := api.awaitState(least, schema.StateSucceeded)
			if attempted(t, run, schema.Succeeded); run.Attempts[0].Executor != "y" {
				t.Errorf("attempt by %q, want it by y", run.Attempts[0].Executor)
			}
			if key := pass(t, "y calls", called); key != least.String() || len(called) != 0 {
				t.Errorf("the next call is for %s, and %d more; want %s alone", key, len(called), least)
			}
			if run := api.awaitState(most, schema.StateFailed); len(run.Attempts) != 1 || run.Attempts[0].Executor != "x" {
				t.Errorf("at_most_once = %+v, want the one attempt, by x", run)
			}
		})
	})
}
