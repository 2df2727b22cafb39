package admin

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// oracle answers reads of numbers, and counts them.
type oracle struct {
	mu    sync.Mutex
	reads int
	value int
	err   error
	hold  chan struct{} // a read waits until it is closed; nil = at once
}

func (o *oracle) read(context.Context, string) (int, error) {
	o.mu.Lock()
	o.reads++
	value, err, hold := o.value, o.err, o.hold
	o.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return value, err
}

func (o *oracle) set(value int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.value, o.err = value, err
}

func (o *oracle) wantReads(t *testing.T, what string, want int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reads != want {
		t.Errorf("%s: %d reads, want %d", what, o.reads, want)
	}
	o.reads = 0
}

func TestCachedValuesAgeAndAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{value: 1}
		b := newRefreshingCache(o.read, time.Now, 4*time.Second, 8*time.Second, 10)
		ask := func(what string, want int, wantErr error) {
			t.Helper()
			if got, err := b.of(t.Context(), "k"); got != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: of = %d, %v; want %d, %v", what, got, err, want, wantErr)
			}
		}
		ask("the first time", 1, nil)
		o.set(2, nil)
		time.Sleep(3 * time.Second)
		ask("fresh", 1, nil)
		o.wantReads(t, "fresh", 1)
		time.Sleep(2 * time.Second)
		ask("old", 2, nil)
		o.wantReads(t, "old", 1)
		o.set(0, schema.ErrUnavailable)
		time.Sleep(5 * time.Second)
		ask("old, and the store away", 2, nil)
		time.Sleep(4 * time.Second)
		ask("too old, and the store away", 0, schema.ErrUnavailable)
		o.set(0, schema.ErrNotFound)
		ask("gone", 0, schema.ErrNotFound)
		o.wantReads(t, "the store away", 3)
		ask("gone, remembered", 0, schema.ErrNotFound)
		o.wantReads(t, "remembered", 0)
		b.forget("k")
		o.set(3, nil)
		ask("forgotten", 3, nil)
	})
}

// While one caller reads again what is old, the others take it as it is; what was read across a
// change is not kept.
func TestACachedValueIsReadAgainByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{value: 1}
		b := newRefreshingCache(o.read, time.Now, 4*time.Second, 8*time.Second, 10)
		if _, err := b.of(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		o.hold = make(chan struct{})
		o.reads = 0
		go func() { _, _ = b.of(t.Context(), "k") }()
		synctest.Wait()
		for range 10 {
			if got, err := b.of(t.Context(), "k"); got != 1 || err != nil {
				t.Errorf("of, while another reads = %d, %v; want 1", got, err)
			}
		}
		o.wantReads(t, "ten callers, while another reads", 1)
		b.forget("k")
		close(o.hold)
		synctest.Wait()
		o.set(2, nil)
		if got, err := b.of(t.Context(), "k"); got != 2 || err != nil {
			t.Errorf("of, after a change during a read = %d, %v; want 2", got, err)
		}
	})
}

// Who asks for what does not exist does not drive out what does.
func TestTheCacheKeepsWhatExists(t *testing.T) {
	reads := 0
	b := newRefreshingCache(func(_ context.Context, k int) (int, error) {
		reads++
		if k < 3 {
			return k, nil
		}
		return 0, schema.ErrNotFound
	}, time.Now, time.Hour, time.Hour, 10)
	for k := range 1000 {
		_, _ = b.of(t.Context(), k)
	}
	if len(b.values) > 10 {
		t.Errorf("%d are kept, want at most 10", len(b.values))
	}
	reads = 0
	for k := range 3 {
		if got, err := b.of(t.Context(), k); got != k || err != nil {
			t.Errorf("of(%d) = %d, %v", k, got, err)
		}
	}
	if reads != 0 {
		t.Errorf("what exists was read %d times again, want that it is known", reads)
	}
}

// TestWhatIsNotKnownIsReadByOne: a node that starts with thousands of messages in hand asks for
// their task once.
func TestWhatIsNotKnownIsReadByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{value: 1, hold: make(chan struct{})}
		b := newRefreshingCache(o.read, time.Now, 4*time.Second, 8*time.Second, 10)
		var asking sync.WaitGroup
		ask := func(ctx context.Context, what string, want int, wantErr error) {
			asking.Go(func() {
				if got, err := b.of(ctx, "k"); got != want || !errors.Is(err, wantErr) {
					t.Errorf("%s: of = %d, %v; want %d, %v", what, got, err, want, wantErr)
				}
			})
			synctest.Wait()
		}
		for range 100 {
			ask(t.Context(), "one of many", 1, nil)
		}
		gone, cancel := context.WithCancel(t.Context())
		ask(gone, "one that gave up", 0, schema.ErrUnavailable)
		cancel()
		synctest.Wait()
		o.wantReads(t, "of many at once", 1)

		b.forget("k")
		ask(t.Context(), "after a change that was heard of meanwhile", 1, nil)
		o.wantReads(t, "after a change that was heard of meanwhile", 1)
		close(o.hold)
		asking.Wait()
		ask(t.Context(), "once it is known", 1, nil)
		o.wantReads(t, "once it is known", 0)
	})
}

// TestACallThatGivesUpLeavesTheReadToTheOthers: its context is not theirs.
func TestACallThatGivesUpLeavesTheReadToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		b := newRefreshingCache(func(ctx context.Context, _ string) (int, error) {
			if reads++; reads > 1 {
				return 1, nil
			}
			<-ctx.Done()
			return 0, schema.ErrUnavailable
		}, time.Now, 4*time.Second, 8*time.Second, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := b.of(ctx, "k"); !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("the one that gives up: of = %v, want %v", err, schema.ErrUnavailable)
			}
		})
		synctest.Wait()
		asking.Go(func() {
			if got, err := b.of(t.Context(), "k"); got != 1 || err != nil {
				t.Errorf("the other: of = %d, %v; want 1", got, err)
			}
		})
		synctest.Wait()
		cancel()
		asking.Wait()
	})
}
