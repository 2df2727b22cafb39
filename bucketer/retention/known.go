package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

const (
	// readEvery is how often the tenants are read that may have a retention of their own. With the
	// second after which their names are known, every node knows of a change within 10 s.
	readEvery = 5 * time.Second
	// readsAtOnce bounds the tenants that are read at once.
	readsAtOnce = 8
)

// Store is what is read of a store.
type Store interface {
	Tenant(ctx context.Context, name string) (schema.Tenant, error)
}

// Known is what a node knows of the retentions of tenants. Its methods may be called from any
// goroutine.
//
// It is told the names of tenants that may have one (NoteRetentions), and reads those tenants:
// where there are none it reads nothing. What cannot be read stays as it was known.
type Known struct {
	store  Store
	log    *slog.Logger
	noted  atomic.Pointer[[]string]
	known  atomic.Pointer[map[string]int] // in days; nil: none
	wakeup chan struct{}
}

// New returns a Known that knows of none.
func New(store Store, log *slog.Logger) *Known {
	return &Known{store: store, log: log, wakeup: make(chan struct{}, 1)}
}

// RetentionOf returns the retention of a tenant in days; 0: the cluster's.
func (k *Known) RetentionOf(tenant string) int {
	known := k.known.Load()
	if known == nil {
		return 0
	}
	return (*known)[tenant]
}

// AnyRetention reports whether any tenant has, or had, a retention of its own.
func (k *Known) AnyRetention() bool {
	noted := k.noted.Load()
	return noted != nil && len(*noted) > 0
}

// NoteRetentions tells the names of the tenants that have, or had, a retention of their own. It
// keeps the slice. A name that is new is read at once.
func (k *Known) NoteRetentions(names []string) {
	was := k.noted.Swap(&names)
	if was == nil && len(names) == 0 || was != nil && slices.Equal(*was, names) {
		return
	}
	select {
	case k.wakeup <- struct{}{}:
	default: // it is about to be read
	}
}

// ReadRetentions reads the retentions of the tenants that were noted.
func (k *Known) ReadRetentions(ctx context.Context) error {
	noted := k.noted.Load()
	if noted == nil || len(*noted) == 0 {
		return nil
	}
	days, errs := make([]int, len(*noted)), make([]error, len(*noted))
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	for i, name := range *noted {
		g.Go(func() error {
			tenant, err := k.store.Tenant(ctx, name)
			if err == nil {
				err = tenant.Fault
			}
			switch {
			case err == nil:
				days[i] = tenant.Retention
			case !errors.Is(err, schema.ErrNotFound): // else it was noted, and not put
				days[i], errs[i] = k.RetentionOf(name), fmt.Errorf("retention of %s: %w", name, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	known := make(map[string]int)
	for i, name := range *noted {
		if days[i] > 0 {
			known[name] = days[i]
		}
	}
	k.known.Store(&known)
	return errors.Join(errs...)
}

// WatchRetentions reads the retentions again and again, until ctx ends.
func (k *Known) WatchRetentions(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		if err := k.ReadRetentions(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("retentions of tenants could not be read: those known before are kept", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.wakeup:
		}
	}
}
