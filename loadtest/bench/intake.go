package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/wait"
)

// importVariants are the three figures of protocol import.
var importVariants = []importVariant{
	{"unkeyed 10m", 10 * time.Minute, false},
	{"unkeyed 24h", 24 * time.Hour, false},
	{"keyed 10m", 10 * time.Minute, true},
}

// intake measures import and api.
type intake struct{ *bench }

type importVariant struct {
	name  string
	span  time.Duration
	keyed bool
}

const (
	// intakeLead lies between the start of an import and the first due instant: nothing runs
	// meanwhile.
	intakeLead = 10 * time.Minute
	// apiRate is how many single creations are made a second, for apiSpan.
	apiRate = 500
	apiSpan = 20 * time.Second
	// apiWarm is how many are made before.
	apiWarm = 1000
)

func (b intake) imports(ctx context.Context, sys system, v importVariant, round int) error {
	if err := b.quiet(ctx, sys); err != nil {
		return err
	}
	r := b.result(ctx, sys, "import", v.name, noopTarget, round)
	j := b.jobs(b.cfg.N, time.Now().Add(intakeLead).Truncate(time.Second), v.span, noopTarget, nowhere)
	j.keyed, j.bytes = v.keyed, importPayload
	r.N, r.Span, r.Settings.Keyed, r.Settings.Payload = j.n, v.span.Seconds(), v.keyed, importPayload
	m := b.meter(ctx, sys)
	flames := b.profiling(ctx, sys, flameSpan(j.n))
	var err error
	if r.Load, err = b.load(ctx, sys, j); err != nil {
		return err
	}
	m.costs(ctx, r, r.N)
	flames(r)
	return b.keep(r)
}

// creations creates jobs one by one at a constant rate, whether answers come or not. Each counts
// from the instant at which it should have been sent.
func (b intake) creations(ctx context.Context, sys system, round int) error {
	if err := b.quiet(ctx, sys); err != nil {
		return err
	}
	r := b.result(ctx, sys, "api", "create", noopTarget, round)
	n := int(apiRate * apiSpan.Seconds())
	j := b.jobs(apiWarm+n, time.Now().Add(intakeLead).Truncate(time.Second), time.Hour, noopTarget, nowhere)
	j.bytes = importPayload
	r.N, r.Rate, r.Span, r.Settings.Payload = n, apiRate, apiSpan.Seconds(), importPayload
	if _, err := b.create(ctx, sys, j, 1, apiWarm); err != nil {
		return err
	}
	m := b.meter(ctx, sys)
	late, err := b.create(ctx, sys, j, apiWarm+1, apiWarm+n)
	if err != nil {
		return err
	}
	m.costs(ctx, r, n)
	r.Lateness = exact(late, "client")
	return b.keep(r)
}

// create posts the lines from first to last, apiRate a second, and returns how long each took.
func (b intake) create(ctx context.Context, sys system, j jobs, first, last int) ([]time.Duration, error) {
	apis := sys.intake()
	took := make([]time.Duration, last-first+1)
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards faults
	var faults []error
	for i := range took {
		when := began.Add(time.Duration(i) * time.Second / apiRate)
		if err := wait.Until(ctx, when); err != nil {
			return nil, err
		}
		wg.Go(func() {
			err := b.createOne(ctx, apis[i%len(apis)], j.appendLine(nil, first+i))
			took[i] = time.Since(when)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, err)
			}
		})
	}
	wg.Wait()
	if len(faults) > 0 {
		return nil, fmt.Errorf("%d of %d creations failed, one: %w", len(faults), len(took), faults[0])
	}
	return took, nil
}

func (b intake) createOne(ctx context.Context, node string, body []byte) error {
	a, err := b.post(ctx, node, body)
	if err == nil && a.Status != http.StatusCreated {
		err = fmt.Errorf("answered %d: %.200s", a.Status, a.Body)
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// post sends a job to a node.
func (b *members) post(ctx context.Context, node string, job []byte) (api.Answer, error) {
	return api.Ask(ctx, b.client, api.Request{Method: http.MethodPost, URL: node + "/v1/jobs", Type: "application/json", Body: job})
}
