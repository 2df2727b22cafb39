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

// Fault is what befalls one call of a store. The zero value is none. Delay comes first; of the
// others the first that is set, in the order of the fields, decides.
type Fault struct {
	// Delay holds the call up before it does anything. A context that ends meanwhile ends the call with ErrUnavailable.
	Delay time.Duration
	// Fail answers ErrUnavailable; nothing was done.
	Fail bool
	// Silent does nothing and answers as a driver that heard nothing: of a write ErrUnknown, of a read ErrUnavailable.
	Silent bool
	// Lose does the call and loses the answer: of a write ErrUnknown is answered, of a read ErrUnavailable.
	Lose bool
	// Tear writes the first half of a batch, and answers ErrUnknown. It is Lose for any other call.
	Tear bool
	// Late answers ErrUnknown at once, and does the write when this time has passed. It is Lose for a
	// conditional write (whoever reads its row later has it decided) and Fail for a read.
	Late time.Duration
}

// Plan decides what befalls a call, from the name of its method ("PutEntries"). It may block, which
// pauses the call, until ctx ends. It is called concurrently.
type Plan func(ctx context.Context, op string) Fault

// FaultyStore is a store whose calls are befallen by what a plan says.
type FaultyStore struct {
	around
	plan Plan
	late sync.WaitGroup
}

// Faulty returns store with faults by plan. A plan sees one call after the other where its
// user makes them so: what it answers may depend on their number, but not on time.
func Faulty(store schema.Store, plan Plan) *FaultyStore {
	f := &FaultyStore{plan: plan}
	f.around = around{inner: store, wrap: f.befall}
	return f
}

func (f *FaultyStore) befall(ctx context.Context, c call) error {
	fault := f.plan(ctx, c.op)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	lost := fmt.Errorf("%s: %w (injected)", c.op, schema.ErrUnknown)
	if fault.Silent && !fault.Fail && c.write {
		return lost
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", c.op, schema.ErrUnavailable, err)
	}
	switch {
	case fault.Fail, !c.write && fault != Fault{Delay: fault.Delay}:
		return fmt.Errorf("%s: %w (injected)", c.op, schema.ErrUnavailable)
	case fault.Tear && c.half != nil && !fault.Lose:
		_ = c.half(ctx)
		return lost
	case fault.Late > 0 && !c.conditional && !fault.Lose && !fault.Tear:
		f.later(context.WithoutCancel(ctx), fault.Late, c)
		return lost
	case fault.Lose, fault.Tear, fault.Late > 0:
		_ = c.do(ctx)
		return lost
	}
	return c.do(ctx)
}

// later does c after the delay. Close waits for it.
func (f *FaultyStore) later(ctx context.Context, delay time.Duration, c call) {
	f.late.Go(func() {
		time.Sleep(delay)
		_ = c.do(ctx)
	})
}

// PutEntries is the store's, with faults. It copies the batch, which its caller may use again while a late write is under way.
func (f *FaultyStore) PutEntries(ctx context.Context, entries []schema.Entry) error {
	return f.around.PutEntries(ctx, slices.Clone(entries))
}

// PutAttempts is the store's, with faults. It copies the batch, as PutEntries does.
func (f *FaultyStore) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	return f.around.PutAttempts(ctx, slices.Clone(attempts))
}

// PutJobRuns is the store's, with faults. It copies the batch, as PutEntries does.
func (f *FaultyStore) PutJobRuns(ctx context.Context, runs []schema.JobRun) error {
	return f.around.PutJobRuns(ctx, slices.Clone(runs))
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

// Seeded returns a plan that draws faults: what befalls the n-th call of a method depends on
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
