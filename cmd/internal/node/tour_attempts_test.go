package node

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// callee answers calls with one status after the other, the last of them from then on, and keeps
// what they said.
type callee struct {
	url    string
	mu     sync.Mutex
	calls  []http.Header
	status []int
}

func newCallee(t *testing.T, status ...int) *callee {
	t.Helper()
	c := &callee{status: status}
	c.url = sink(t, func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, r.Header)
		w.WriteHeader(c.status[0])
		if len(c.status) > 1 {
			c.status = c.status[1:]
		}
	})
	return c
}

// called returns what the calls until now said, and checks that each was an attempt of the run, in
// order.
func (c *callee) called(t *testing.T, run schema.RunID) []http.Header {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var before schema.Fence
	for i, h := range c.calls {
		fence := fenceOf(t, h)
		if h.Get("Carillon-Run-Id") != run.String() || h.Get("Idempotency-Key") != run.String() || h.Get("Carillon-Attempt") != strconv.Itoa(i+1) || fence <= before {
			t.Errorf("call %d of run %s says run %s, key %s, attempt %s and fence %d after %d; want run and key the run, attempt %[1]d, a fence that grows",
				i+1, run, h.Get("Carillon-Run-Id"), h.Get("Idempotency-Key"), h.Get("Carillon-Attempt"), fence, before)
		}
		before = fence
	}
	return c.calls
}

func fenceOf(t *testing.T, h http.Header) schema.Fence {
	t.Helper()
	n, err := strconv.ParseInt(h.Get("Carillon-Fence"), 10, 64)
	if err != nil {
		t.Errorf("Carillon-Fence is %q, want a number", h.Get("Carillon-Fence"))
	}
	return schema.Fence(n)
}

// often is a policy with so many attempts, soon after each other.
func often(attempts int) *schema.Retry {
	return &schema.Retry{MaxAttempts: attempts, Initial: schema.Duration(10 * time.Millisecond)}
}

// attempted checks which outcomes the attempts of a run had.
func attempted(t *testing.T, run httpapi.Run, want ...schema.Outcome) {
	t.Helper()
	ok := len(run.Attempts) == len(want)
	for i, a := range run.Attempts {
		ok = ok && a.Number == i+1 && a.Outcome == want[i]
	}
	if !ok {
		t.Fatalf("attempts of the run: %+v, want %v", run.Attempts, want)
	}
}

// A guarded run follows its lease: it ends under the fence that its callee got.
func (r *running) endsUnderItsClaim(run schema.RunID, last http.Header) {
	r.t.Helper()
	lease, err := r.node.store.Lease(r.t.Context(), schema.RunLease(run))
	if err != nil {
		r.t.Fatalf("Lease = %v", err)
	}
	claim, err := lease.Claim()
	if fence := fenceOf(r.t, last); err != nil || lease.Holder != nil || !claim.Over() || claim.Fence != fence || lease.Fence != fence {
		r.t.Errorf("lease = %+v with claim %+v, %v; want a claim that is over, of fence %d as the callee was told", lease, claim, err, fence)
	}
}

func (r *running) showEffectivelyOnce(ground) {
	c := newCallee(r.t, http.StatusInternalServerError, http.StatusOK)
	job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: c.url}, Guarantee: schema.EffectivelyOnce, Retry: often(3)}})
	attempted(r.t, r.awaitState(job.ID, schema.StateSucceeded), schema.Failed, schema.Succeeded)
	calls := c.called(r.t, schema.RunID(job.ID))
	if len(calls) != 2 {
		r.t.Fatalf("%d calls, want one for each attempt", len(calls))
	}
	r.endsUnderItsClaim(schema.RunID(job.ID), calls[1])
}

func (r *running) showAtMostOnce(ground) {
	t := r.t
	for status, want := range map[int]schema.State{http.StatusOK: schema.StateSucceeded, http.StatusServiceUnavailable: schema.StateFailed} {
		c := newCallee(t, status)
		job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: c.url}, Guarantee: schema.AtMostOnce}})
		run := r.awaitState(job.ID, want)
		calls := c.called(t, run.ID)
		if len(calls) != 1 || len(run.Attempts) != 1 || run.Attempts[0].StatusCode != status {
			t.Fatalf("%d calls that are answered with %d and attempts %+v, want one of each", len(calls), status, run.Attempts)
		}
		r.endsUnderItsClaim(run.ID, calls[0])
	}
	var p *httpapi.Problem
	twice := request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://127.0.0.1"}, Guarantee: schema.AtMostOnce, Retry: often(2)}}
	if _, err := r.client().CreateJob(t.Context(), twice); !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity {
		t.Errorf("CreateJob of at_most_once with two attempts = %v, want 422", err)
	}
}

func (r *running) showRetryAfter(ground) {
	t := r.t
	url := sink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Carillon-Attempt") == "1" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Retry: often(2)}})
	run := r.awaitState(job.ID, schema.StateSucceeded)
	attempted(t, run, schema.Failed, schema.Succeeded)
	if pause := run.Attempts[1].StartedAt.Sub(run.Attempts[0].FinishedAt.Time); pause < time.Second {
		t.Errorf("the second attempt started %v after the first, want the second that the callee asked for at least", pause)
	}
}

func (r *running) showFinalAnswer(ground) {
	c := newCallee(r.t, http.StatusNotFound)
	job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: c.url}, Retry: often(3)}})
	r.letter(schema.RunID(job.ID)) // which follows the record
	run := r.awaitState(job.ID, schema.StateFailed)
	attempted(r.t, run, schema.Failed)
	if n := len(c.called(r.t, run.ID)); n != 1 || run.Attempts[0].StatusCode != http.StatusNotFound || !run.DeadLetter {
		r.t.Errorf("after %d calls the run is %+v, want one that got a 404 and is a dead letter", n, run)
	}
}

func (r *running) showRetry(ground) {
	t, client := r.t, r.client()
	c := newCallee(t, 500, 502, 500, 200)
	job := r.ask(request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: c.url}, Retry: often(3)}, Payload: json.RawMessage(`"again"`)})
	failed := r.awaitState(job.ID, schema.StateFailed)
	attempted(t, failed, schema.Failed, schema.Failed, schema.Failed)
	if n := len(c.called(t, failed.ID)); n != 3 {
		t.Errorf("%d calls, want three", n)
	}
	key := uuid.NewString()
	again, err := client.RetryRun(t.Context(), failed.ID, key)
	if err != nil || again.ID == failed.ID || again.Origin != failed.ID {
		t.Fatalf("RetryRun = %s with origin %s, %v; want another run whose origin is %s", again.ID, again.Origin, err, failed.ID)
	}
	if same, err := client.RetryRun(t.Context(), failed.ID, key); err != nil || same.ID != again.ID {
		t.Errorf("RetryRun with the same key = %s, %v; want %s", same.ID, err, again.ID)
	}
	run := r.awaitState(schema.JobID(again.ID), schema.StateSucceeded)
	attempted(t, run, schema.Succeeded)
	if run.Trigger != schema.TriggerRetry || string(run.Payload) != `"again"` || run.Origin != failed.ID {
		t.Errorf("the new run = %+v, want a retry with the payload of its origin", run)
	}
	r.awaitState(job.ID, schema.StateFailed)
}
