package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Unique jobs are one-off jobs whose lines follow those of the others. The checker judges them with
// those: that none was created within the window of another of its key.
const (
	uniqueKeys   = 3
	uniqueWindow = 20 * time.Second
)

// askUnique asks for unique jobs, three at an instant, which often have the same key. Half of the
// requests have an idempotency key, and are sent again until they are answered.
func (w *world) askUnique(ctx context.Context, wg *sync.WaitGroup) {
	rng := rand.New(rand.NewPCG(w.s.Seed, 13)) // #nosec G404 -- drawn from the seed
	for i := 0; i < w.s.Unique; i += 3 {
		when := time.Duration(rng.Float64() * float64(w.s.Span))
		for line := w.s.Jobs + i + 1; line <= w.s.Jobs+min(i+3, w.s.Unique); line++ {
			key := fmt.Sprint("unique-", rng.IntN(4)/2+rng.IntN(uniqueKeys-1))
			ahead := time.Duration(rng.IntN(2)) * time.Duration(rng.Float64()*float64(10*time.Second))
			wg.Go(func() {
				time.Sleep(when)
				w.submitUnique(ctx, line, key, ahead)
			})
		}
	}
}

// submitUnique asks for one unique job.
func (w *world) submitUnique(ctx context.Context, line int, key string, ahead time.Duration) {
	ref := check.Ref{Source: "sim", Line: line}
	job := bucketer.Job{
		Tenant: w.tenantOf(line), BodyHash: fmt.Sprint(line), Payload: payloadOf(line),
		Work:   &schema.Work{HTTP: &schema.HTTPTarget{URL: urlOf(line)}, Timeout: schema.Duration(15 * time.Second)},
		Unique: &schema.Unique{By: []string{"payload"}, Window: schema.Duration(uniqueWindow), Key: key},
	}
	if ahead > 0 {
		job.At = time.Now().Add(ahead).Truncate(time.Millisecond)
	}
	ask := check.Ask{
		Ref: ref, At: job.At, Known: true, Body: check.Hash(0).Add(job.Payload), Unique: w.tenantOf(line) + "/" + key, UniqueFor: uniqueWindow, Requested: time.Now(),
	}
	tries := 1
	if line%2 == 0 {
		job.Key, tries = fmt.Sprintf("key-%d", line), 8
		ask.Key = job.Key
	}
	w.mu.Lock()
	w.asked = append(w.asked, ask)
	w.mu.Unlock()
	for range tries {
		if n, l := w.someNodeFor(job.Tenant); n != nil {
			var r bucketer.Receipt
			var err error
			if line%4 < 2 {
				l.bucketer.SubmitBatch(ctx, []bucketer.Job{job}, func(_ int, got bucketer.Receipt, e error) { r, err = got, e })
			} else {
				r, err = l.bucketer.Submit(ctx, job)
			}
			ack := check.Ack{Ref: ref, At: time.Now(), Status: 503}
			switch {
			case err == nil && r.Unique:
				ack.ID, ack.Status, ack.Existing = r.Run.String(), 200, true
			case err == nil:
				ack.ID, ack.Status = r.Run.String(), 201
			}
			w.mu.Lock()
			w.acks = append(w.acks, ack)
			if ack.Status == 201 {
				w.ids[line] = r.Run
			}
			w.mu.Unlock()
			if err == nil {
				return
			}
		}
		time.Sleep(3 * time.Second)
	}
}
