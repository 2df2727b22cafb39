package node

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// order is in which order a receiver was called, by the path of its URL. Its calls take so long
// that executors can do less than is due, and have the next ones at hand when a slot comes free:
// one for which nothing better is at hand goes to whatever is.
type order struct {
	mu    sync.Mutex
	paths []string
}

func orderOf(t *testing.T, work time.Duration) (*order, string) {
	t.Helper()
	o := &order{}
	return o, sink(t, func(_ http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.paths = append(o.paths, r.URL.Path[1:])
		o.mu.Unlock()
		<-time.After(work)
	})
}

// awaited waits until n calls came, and returns whose they were.
func (o *order) awaited(t *testing.T, n int) (paths []string) {
	t.Helper()
	await(t, fmt.Sprintf("%d calls come", n), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		paths = slices.Clone(o.paths)
		return len(paths) >= n
	})
	return paths
}

// last returns the place of the last call of a path, from 0 on.
func last(paths []string, path string) int {
	at := -1
	for i, p := range paths {
		if p == path {
			at = i
		}
	}
	return at
}

// showPriorities makes a backlog of low runs, then critical ones, before an executor with few slots
// starts. Without priorities as many low as critical runs would start, or all low ones first.
func (r *running) showPriorities(dispatcher *running, execute func()) {
	t := r.t
	const low, critical = 30, 20
	o, url := orderOf(t, 80*time.Millisecond)
	ids := make([]schema.RunID, 0, low+critical)
	for _, of := range []struct {
		priority schema.Priority
		n        int
	}{{schema.Low, low}, {schema.Critical, critical}} {
		ids = append(ids, r.batch(of.n, request.JobRequest{
			Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url + "/" + string(of.priority)}}, Priority: of.priority,
		}, 0)...)
		await(t, "all are published", func() bool {
			return dispatcher.in(t).metric(fmt.Sprintf("carillon_dispatcher_published_total{priority=%q}", of.priority)) >= float64(of.n)
		})
	}
	execute()
	paths := o.awaited(t, low+critical)
	if before := last(paths, string(schema.Critical)) + 1 - critical; before > low/2 {
		t.Errorf("%d of %d low runs started before the last of %d critical ones, want at most half of them: %v", before, low, critical, paths)
	}
	for _, id := range ids {
		r.awaitState(schema.JobID(id), schema.StateSucceeded)
	}
}

// showShares has a tenant with more runs than executors can start, three with a backlog and weights
// of 1, 2 and 4, and one with few runs that comes last. Runs published before the others wait start
// first; they are a small part of the first tenant's.
func (r *running) showShares() {
	t := r.t
	const much, backlog, little = 1200, 200, 12
	var paths []string
	for ahead := 2 * time.Second; paths == nil; ahead *= 2 {
		o, url := orderOf(t, 20*time.Millisecond)
		all, first := 0, time.Now().Add(ahead)
		at := first.Add(much * time.Millisecond)
		for _, of := range []struct {
			name      string
			weight, n int
			due       time.Time
			step      time.Duration
		}{
			{"much", 1, much, first, time.Millisecond},
			{"a", 1, backlog, at, 0},
			{"b", 2, backlog, at, 0},
			{"c", 4, backlog, at, 0},
			{"little", 1, little, at.Add(100 * time.Millisecond), 0},
		} {
			who := r.in(t)
			who.tenant = of.name + uuid.NewString()
			if _, err := who.client().PutTenant(t.Context(), who.tenant, request.TenantRequest{Weight: of.weight}); err != nil {
				t.Fatalf("PutTenant = %v", err)
			}
			work := schema.Work{HTTP: &schema.HTTPTarget{URL: url + "/" + of.name}}
			who.batch(of.n, request.JobRequest{Work: work, Schedule: &request.Schedule{At: of.due}}, of.step)
			all += of.n
		}
		late := time.Since(first)
		if got := o.awaited(t, all); late < 0 {
			paths = got
		} else {
			t.Logf("the jobs were there %v after the first was due: once more", late)
		}
	}
	started := func(paths []string, of string) (n int) {
		for _, p := range paths {
			if p == of {
				n++
			}
		}
		return n
	}
	part := paths
	for started(part, "c") > backlog*3/5 {
		part = part[:last(part, "c")]
	}
	if a, b, c := started(part, "a"), started(part, "b"), started(part, "c"); a >= b || b >= c || c < 2*a {
		t.Errorf("while three tenants with weights of 1, 2 and 4 had a backlog, %d, %d and %d of their runs started", a, b, c)
	}
	if after := started(paths[last(paths, "little"):], "much"); after < much/6 {
		t.Errorf("%d of %d runs of a tenant with a hundred times the load started after all %d of another, want a sixth at least", after, much, little)
	}
}
