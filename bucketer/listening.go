package bucketer

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// listeningEvery is how often it is read which tenants listen to events of the system: so soon
	// after somebody subscribed they follow.
	listeningEvery = time.Second
	// listeningPage bounds the tenants of one read.
	listeningPage = 1000
)

// listening knows which tenants have subscribed to events of the system. All others cost a look into
// a map for each record of a run.
type listening struct {
	from    schema.SubscriptionStore
	logger  *slog.Logger
	tenants atomic.Pointer[map[string]struct{}]
}

// Announces reports whether somebody of a tenant may listen to events of the system about its runs.
func (l *listening) Announces(tenant string) bool {
	all := l.tenants.Load()
	if all == nil {
		return false
	}
	_, ok := (*all)[tenant]
	return ok
}

// RefreshListening reads which tenants listen.
func (l *listening) RefreshListening(ctx context.Context) error {
	all := make(map[string]struct{})
	for after := ""; ; {
		page, err := l.from.Listening(ctx, after, listeningPage)
		if err != nil {
			return err
		}
		for _, tenant := range page {
			all[tenant] = struct{}{}
		}
		if len(page) < listeningPage {
			break
		}
		after = page[len(page)-1]
	}
	l.tenants.Store(&all)
	return nil
}

// watchListening reads again and again which tenants listen, until ctx ends.
func (l *listening) watchListening(ctx context.Context) {
	tick := time.NewTicker(listeningEvery)
	defer tick.Stop()
	for {
		if err := l.RefreshListening(ctx); err != nil && ctx.Err() == nil {
			l.logger.Debug("which tenants listen to events could not be read: those known before are kept", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
