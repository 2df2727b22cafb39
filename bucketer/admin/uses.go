package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// auditUsesEvery is how often the audit log is told how often each secret was used.
	auditUsesEvery = time.Hour
	// usesCounted bounds the secrets whose uses are being counted. One more has all told at once.
	usesCounted = 10_000
)

// The results of a use.
const (
	usedOpened   = "opened"
	usedMissing  = "missing" // there is no such secret
	usedSealed   = "sealed"  // it cannot be opened here
	usedUnread   = "unread"  // the store did not answer
	usedNotKnown = "damaged" // what is stored of it cannot be understood
)

// secretUses notes what secrets are used for: it counts each use in a metric, writes when a secret
// was used last (to usedEvery), and tells the audit log once an hour how often.
type secretUses struct {
	store schema.SecretStore
	audit func(AuditEvent)
	node  string
	log   *slog.Logger
	total *prometheus.CounterVec // result

	touches chan secretTouch

	mu   sync.Mutex
	used map[secretName]*secretUse
}

// secretUse is what one secret was used for.
type secretUse struct {
	count   int       // since the audit log was told
	first   time.Time // of those
	touched time.Time // when its last use was written
}

type secretTouch struct {
	secretName
	at time.Time
}

func newSecretUses(store schema.SecretStore, audit func(AuditEvent), node string, log *slog.Logger, reg prometheus.Registerer) *secretUses {
	u := &secretUses{
		store: store, audit: audit, node: node, log: log,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "carillon", Subsystem: "secrets", Name: "uses_total", Help: "Uses of secrets by attempts, by what came of them.",
		}, []string{"result"}),
		touches: make(chan secretTouch, usesWaiting), used: make(map[secretName]*secretUse),
	}
	for _, result := range []string{usedOpened, usedMissing, usedSealed, usedUnread, usedNotKnown} {
		u.total.WithLabelValues(result)
	}
	reg.MustRegister(u.total)
	return u
}

// note notes a use. It does not wait.
func (u *secretUses) note(at secretName, now time.Time, err error) {
	result := usedOpened
	switch {
	case err == nil:
	case errors.Is(err, schema.ErrNotFound):
		result = usedMissing
	case errors.Is(err, bucketer.ErrSealed):
		result = usedSealed
	case errors.Is(err, schema.ErrNotUnderstood):
		result = usedNotKnown
	default:
		result = usedUnread
	}
	if u.total.WithLabelValues(result).Inc(); err != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	use := u.used[at]
	if use == nil {
		if len(u.used) >= usesCounted {
			u.tellLocked()
		}
		use = new(secretUse)
		u.used[at] = use
	}
	if use.count == 0 {
		use.first = now
	}
	use.count++
	if now.Sub(use.touched) < usedEvery {
		return
	}
	select {
	case u.touches <- secretTouch{at, now}:
		use.touched = now
	default: // a later use is written instead
	}
}

// run writes uses until ctx ends, and then tells what was not told yet.
func (u *secretUses) run(ctx context.Context) error {
	hour := time.NewTicker(auditUsesEvery)
	defer hour.Stop()
	defer u.tell()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hour.C:
			u.tell()
		case use := <-u.touches:
			if err := u.store.TouchSecret(ctx, use.tenant, use.name, use.at); err != nil && ctx.Err() == nil {
				u.log.Warn("the use of a secret could not be noted", "tenant", use.tenant, "secret", use.name, "err", err)
			}
		}
	}
}

func (u *secretUses) tell() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tellLocked()
}

// tellLocked tells the audit log of every secret that was used since it was told last, and forgets
// those that were not; mu is held. Audit does not wait.
func (u *secretUses) tellLocked() {
	names := make([]secretName, 0, len(u.used))
	for at := range u.used {
		names = append(names, at)
	}
	slices.SortFunc(names, func(a, b secretName) int { return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.name, b.name)) })
	for _, at := range names {
		use := u.used[at]
		if use.count == 0 || len(u.used) >= usesCounted {
			delete(u.used, at)
		}
		if use.count == 0 || u.audit == nil {
			continue
		}
		u.audit(AuditEvent{
			Tenant: at.tenant, Actor: "carillon", Action: "use", Object: "secret/" + at.name,
			Note: fmt.Sprintf("%d attempts on %s since %s", use.count, u.node, use.first.UTC().Format(time.RFC3339)),
		})
		use.count = 0
	}
}
