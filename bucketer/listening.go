package bucketer

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"carillon.dev/carillon/bucketer/retention"
	"carillon.dev/carillon/schema"
)

const (
	// listeningEvery is how often it is read which tenants listen to events of the system: so soon
	// after somebody subscribed they follow.
	listeningEvery = time.Second
	// listeningPage bounds the names of one read.
	listeningPage = 1000
	// listeningWithin is how long what was read counts. After that any tenant may listen.
	listeningWithin = 2 * time.Second
)

// listening knows of which tenants the ends of runs have consequences: they have subscribed to
// events of the system, have jobs that run after others, or rules for notifications. All others
// cost a look into a map for each record of a run.
type listening struct {
	from   schema.SubscriptionStore
	logger *slog.Logger
	now    func() time.Time
	known  atomic.Pointer[listeners]
	reads  singleflight.Group // what is read before its time, once for all who ask

	keeping *retention.Known // hears which tenants may have a retention of their own
}

// listeners is what was read.
type listeners struct {
	at    time.Time            // when the read began, monotonic
	names map[string]time.Time // since when we know of each
	// tenants are those of whom any name is known.
	tenants map[string]struct{}
}

// isOld reports whether what was read counts no more.
func (l *listeners) isOld() bool { return l == nil || time.Since(l.at) > listeningWithin }

// has reports whether a name is known.
func (l *listeners) has(name string) bool {
	if l == nil {
		return false
	}
	_, ok := l.names[name]
	return ok
}

// follows reports whether any name of a tenant is known.
func (l *listeners) follows(tenant string) bool {
	if l == nil {
		return false
	}
	_, ok := l.tenants[tenant]
	return ok
}

// Announces reports whether the end of a run of a tenant may have consequences for others. While that
// has not been read for long it may.
func (l *listening) Announces(tenant string) bool {
	k := l.known.Load()
	return k.isOld() || k.follows(tenant)
}

// Listens reports whether somebody of a tenant listens to events of the system about its runs. It reads
// that if it was not read for long.
func (l *listening) Listens(ctx context.Context, tenant string) (bool, error) {
	return l.knows(ctx, tenant)
}

// HasDependents reports whether jobs of a tenant run after others. It reads that if it was not read for
// long.
func (l *listening) HasDependents(ctx context.Context, tenant string) (bool, error) {
	return l.knows(ctx, schema.Dependents(tenant))
}

// Notifies reports whether a tenant may have rules for notifications. It reads that if it was not
// read for long.
func (l *listening) Notifies(ctx context.Context, tenant string) (bool, error) {
	return l.knows(ctx, schema.Notifying(tenant))
}

// Notifying returns the tenants that may have rules for notifications, as read last.
func (l *listening) Notifying() (tenants []string) {
	if k := l.known.Load(); k != nil {
		for name := range k.names {
			if tenant, _, ok := strings.Cut(name, "/"); ok && name == schema.Notifying(tenant) {
				tenants = append(tenants, tenant)
			}
		}
	}
	return tenants
}

func (l *listening) knows(ctx context.Context, name string) (bool, error) {
	err := l.readIfOld(ctx)
	return err == nil && l.known.Load().has(name), err
}

func (l *listening) readIfOld(ctx context.Context) error {
	if !l.known.Load().isOld() {
		return nil
	}
	if _, err, _ := l.reads.Do("", func() (any, error) { return nil, l.RefreshListening(ctx) }); err != nil {
		return fmt.Errorf("read who follows on runs: %w", err)
	}
	return nil
}

// IsFollowed is Announces by what is known for sure: it reads that if it was not read for long.
func (l *listening) IsFollowed(ctx context.Context, tenant string) (bool, error) {
	err := l.readIfOld(ctx)
	return err != nil || l.known.Load().follows(tenant), err
}

// NoteDependents notes that jobs of a tenant run after others. When it returns, every node that
// records the end of a run knows.
func (l *listening) NoteDependents(ctx context.Context, tenant string) error {
	return l.noteName(ctx, schema.Dependents(tenant))
}

// NoteNotifying notes that a tenant has rules for notifications. When it returns, every node that
// records the end of a run knows.
func (l *listening) NoteNotifying(ctx context.Context, tenant string) error {
	return l.noteName(ctx, schema.Notifying(tenant))
}

// noteName notes a name, and waits until every node has read it.
func (l *listening) noteName(ctx context.Context, name string) error {
	if k := l.known.Load(); k.has(name) && time.Since(k.names[name]) > listeningWithin {
		return nil
	}
	if err := l.from.PutListening(ctx, name, l.now()); err != nil {
		return err
	}
	timer := time.NewTimer(listeningWithin)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// RefreshListening reads which tenants listen, which have jobs that run after others, and which
// rules for notifications.
func (l *listening) RefreshListening(ctx context.Context) error {
	var keeping []string
	was, is := l.known.Load(), &listeners{at: time.Now(), names: make(map[string]time.Time), tenants: make(map[string]struct{})}
	for after := ""; ; {
		page, err := l.from.Listening(ctx, after, listeningPage)
		if err != nil {
			return err
		}
		for _, name := range page {
			if tenant, ok := schema.KeepingTenant(name); ok {
				keeping = append(keeping, tenant)
				continue
			}
			is.names[name] = is.at
			tenant, _, _ := strings.Cut(name, "/")
			is.tenants[tenant] = struct{}{}
			if was.has(name) {
				is.names[name] = was.names[name]
			}
		}
		if len(page) < listeningPage {
			break
		}
		after = page[len(page)-1]
	}
	l.known.Store(is)
	l.keeping.NoteRetentions(keeping)
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
