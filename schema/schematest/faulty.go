package schematest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// Fault is what happens to one call of a store. The zero value is none. Delay comes first; of the
// others, the first that is set, in the order of the fields, decides.
type Fault struct {
	// Delay holds the call up before it does anything. If its context ends meanwhile, it ends with
	// ErrUnavailable.
	Delay time.Duration
	// Fail answers ErrUnavailable; nothing was done.
	Fail bool
	// Silent does nothing and answers as a driver that heard nothing: ErrUnknown to a write,
	// ErrUnavailable to a read.
	Silent bool
	// Lose does the call and loses the answer: a write answers ErrUnknown, a read ErrUnavailable.
	Lose bool
	// Tear writes the first half of a batch, and answers ErrUnknown. For any other call it is Lose.
	Tear bool
	// Late answers ErrUnknown at once, and does the write after this time. For a conditional write
	// it is Lose, because whoever reads its row later has it decided; for a read it is Fail.
	Late time.Duration
}

// Plan decides what happens to a call, from the name of its method ("PutEntries"). It may block
// until ctx ends, which pauses the call. It is called concurrently.
type Plan func(ctx context.Context, op string) Fault

// FaultyStore is a store whose calls fail as a plan says.
type FaultyStore struct {
	around
	plan Plan
	late sync.WaitGroup
}

// Faulty returns store with faults by plan. Where its user makes calls one after the other, the
// plan sees them so: its answer may depend on their number, but not on time.
func Faulty(store schema.Store, plan Plan) *FaultyStore {
	f := &FaultyStore{plan: plan}
	f.around = around{inner: store, wrap: f.inject}
	return f
}

func (f *FaultyStore) inject(ctx context.Context, c call) error {
	fault := f.plan(ctx, c.op)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if fault.Silent && !fault.Fail && c.write {
		return c.lost()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", c.op, schema.ErrUnavailable, err)
	}
	switch {
	case fault == Fault{Delay: fault.Delay}:
		return c.do(ctx)
	case fault.Fail, !c.write:
		return fmt.Errorf("%s: %w (injected)", c.op, schema.ErrUnavailable)
	case fault.Tear && c.half != nil && !fault.Lose:
		_ = c.half(ctx)
		return c.lost()
	case fault.Late > 0 && !c.conditional && !fault.Lose && !fault.Tear:
		f.later(context.WithoutCancel(ctx), fault.Late, c)
		return c.lost()
	}
	_ = c.do(ctx) // Lose, Tear or Late
	return c.lost()
}

// lost is the answer to a write of which nothing was heard.
func (c *call) lost() error { return fmt.Errorf("%s: %w (injected)", c.op, schema.ErrUnknown) }

// later does c after the delay. Close waits for it.
func (f *FaultyStore) later(ctx context.Context, delay time.Duration, c call) {
	f.late.Go(func() {
		time.Sleep(delay)
		_ = c.do(ctx)
	})
}

// PutEntries copies the batch: its caller may use it again while a late write is under way.
func (f *FaultyStore) PutEntries(ctx context.Context, entries []schema.Entry) error {
	return f.around.PutEntries(ctx, slices.Clone(entries))
}

// PutAttempts copies the batch, as PutEntries does.
func (f *FaultyStore) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	return f.around.PutAttempts(ctx, slices.Clone(attempts))
}

// CreateJobs copies the batch, as PutEntries does.
func (f *FaultyStore) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	return f.around.CreateJobs(ctx, slices.Clone(jobs))
}

// ListJobs copies the batch, as PutEntries does.
func (f *FaultyStore) ListJobs(ctx context.Context, tenant string, ids []schema.JobID) error {
	return f.around.ListJobs(ctx, tenant, slices.Clone(ids))
}

// PutJobRuns copies the batch, as PutEntries does.
func (f *FaultyStore) PutJobRuns(ctx context.Context, runs []schema.JobRun) error {
	return f.around.PutJobRuns(ctx, slices.Clone(runs))
}

// PutAudit copies the batch, as PutEntries does.
func (f *FaultyStore) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	return f.around.PutAudit(ctx, slices.Clone(entries))
}

// Close waits for the late writes and closes the store.
func (f *FaultyStore) Close() error {
	f.late.Wait()
	return f.around.Close()
}

// Odds says how likely each fault is, from 0 to 1. Their sum, Delay apart, is at most 1.
type Odds struct {
	Delay, Fail, Lose, Tear, Late float64
	// MaxDelay bounds Fault.Delay and Fault.Late. Default 5 ms.
	MaxDelay time.Duration
}

// Seeded returns a plan that draws faults. What happens to the n-th call of a method depends on
// seed, method and n alone.
func Seeded(seed uint64, odds Odds) Plan {
	if odds.MaxDelay <= 0 {
		odds.MaxDelay = 5 * time.Millisecond
	}
	var (
		mu    sync.Mutex
		draws = map[string]*rand.Rand{}
	)
	return func(_ context.Context, op string) (f Fault) {
		mu.Lock()
		defer mu.Unlock()
		draw := draws[op]
		if draw == nil {
			h := fnv.New64a()
			_, _ = h.Write([]byte(op)) // never fails
			draw = rand.New(rand.NewPCG(seed, h.Sum64()))
			draws[op] = draw
		}
		delay, kind, span := draw.Float64(), draw.Float64(), 1+time.Duration(draw.Int64N(int64(odds.MaxDelay)))
		if delay < odds.Delay {
			f.Delay = span
		}
		switch {
		case kind < odds.Fail:
			f.Fail = true
		case kind < odds.Fail+odds.Lose:
			f.Lose = true
		case kind < odds.Fail+odds.Lose+odds.Tear:
			f.Tear = true
		case kind < odds.Fail+odds.Lose+odds.Tear+odds.Late:
			f.Late = span
		}
		return f
	}
}
