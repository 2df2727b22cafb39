package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// importVariants are the three figures of protocol import.
var importVariants = []struct {
	name  string
	span  time.Duration
	keyed bool
}{
	{"unkeyed 10m", 10 * time.Minute, false},
	{"unkeyed 24h", 24 * time.Hour, false},
	{"keyed 10m", 10 * time.Minute, true},
}

const (
	// intakeLead is from the start of an import to the first due instant: by then the last one is long over.
	intakeLead = 10 * time.Minute
	// apiRate is how many single creations are made a second, for apiSpan.
	apiRate = 500
	apiSpan = 20 * time.Second
	// apiWarm is how many are made before.
	apiWarm = 1000
)

// intakes is protocols import and api: jobs are taken in while nothing runs.
func (b *bench) intakes(ctx context.Context) error {
	return b.with(ctx, together, true, func(sys system) error {
		if err := b.warm(ctx, sys, noopTarget); err != nil {
			return err
		}
		for round := range b.cfg.Rounds {
			if b.wanted("import") {
				for i := range importVariants {
					if err := b.imports(ctx, sys, i, round+1); err != nil {
						return err
					}
				}
			}
			if b.wanted("api") {
				if err := b.creations(ctx, sys, round+1); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (b *bench) imports(ctx context.Context, sys system, variant, round int) error {
	if err := b.quiet(ctx, sys); err != nil {
		return err
	}
	v := importVariants[variant]
	r := b.result(ctx, sys, "import", v.name, noopTarget, round)
	j := b.jobs(b.cfg.N, time.Now().Add(intakeLead).Truncate(time.Second), v.span, noopTarget, nowhere)
	j.keyed, j.bytes = v.keyed, importPayload
	r.N, r.Span, r.Settings.Keyed, r.Settings.Payload = j.n, v.span.Seconds(), v.keyed, importPayload
	s := newScraper(b.client)
	s.watch(sys.nodes())
	before, cpu := s.mark(ctx), b.cpu(sys)
	flames := b.profiling(ctx, sys, flameSpan(j.n))
	var err error
	if r.Load, err = b.load(ctx, sys, j); err != nil {
		return err
	}
	r.used(cpu, b.cpu(sys), r.N)
	b.allocations(r, s.mark(ctx).less(before))
	r.RunsPerS = 0 // nothing runs
	flames(r)
	return b.keep(r)
}

// creations makes jobs one by one at a constant rate, whether the answers come or not, and counts each from the instant at
// which it should have been sent.
func (b *bench) creations(ctx context.Context, sys system, round int) error {
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
	s := newScraper(b.client)
	s.watch(sys.nodes())
	before, cpu := s.mark(ctx), b.cpu(sys)
	late, err := b.create(ctx, sys, j, apiWarm+1, apiWarm+n)
	if err != nil {
		return err
	}
	r.used(cpu, b.cpu(sys), n)
	b.allocations(r, s.mark(ctx).less(before))
	r.Lateness = exact(late, "client")
	return b.keep(r)
}

// create posts the lines from first to last, apiRate a second, and returns how long each took.
func (b *bench) create(ctx context.Context, sys system, j jobs, first, last int) ([]time.Duration, error) {
	apis := sys.intake()
	took := make([]time.Duration, last-first+1)
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards faults
	var faults []error
	for i := range took {
		when := began.Add(time.Duration(i) * time.Second / apiRate)
		if err := sleepUntil(ctx, when); err != nil {
			return nil, err
		}
		wg.Go(func() {
			err := b.createOne(ctx, apis[i%len(apis)], string(j.appendLine(nil, first+i)))
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

func (b *bench) createOne(ctx context.Context, api, body string) error {
	status, text, err := b.post(ctx, api+"/v1/jobs", body)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("answered %d: %.200s", status, text)
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// post sends JSON and returns the answer, of which nobody needs more than a MiB.
func (b *bench) post(ctx context.Context, url, body string) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, text, err
}
