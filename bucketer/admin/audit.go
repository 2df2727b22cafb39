package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

const (
	// auditWaiting bounds the entries that wait to be written. More are dropped and counted, and an
	// entry says how many.
	auditWaiting = 10_000
	// auditBatch bounds the entries written at once, and auditAge how long one waits for others.
	auditBatch = 50
	auditAge   = 200 * time.Millisecond
	// auditRetry is how long a store that did not take a batch is left alone, and auditTry how long
	// a try may take.
	auditRetry = time.Second
	auditTry   = 5 * time.Second
	// auditLast bounds the writing of what waits when Run is told to stop.
	auditLast = 5 * time.Second
	// auditText bounds what is kept of an object before and after, bytes each.
	auditText = 4 << 10
	// auditPage is how many entries a listing reads at once.
	auditPage = 500
)

// AuditEvent is a change that a caller made.
type AuditEvent struct {
	Tenant, Actor, Action, Object string
	// Before and After are what the object was and is: anything that encodes as JSON, without
	// secrets; nil where there is none.
	Before, After any
	Note          string
}

// Audit writes what was changed to the audit log, in the background: after the change, in order,
// and without holding it up. A crash loses what was noted in the last fraction of a second. While
// the store does not answer, entries wait; when too many do, new ones are dropped, counted, logged,
// and told of by an entry of their number. Its methods may be called from any goroutine.
type Audit struct {
	store   schema.AuditStore
	now     func() time.Time
	log     *slog.Logger
	written prometheus.Counter
	dropped prometheus.Counter

	wake chan struct{} // holds one when something was noted

	mu      sync.Mutex
	waiting []schema.AuditEntry // in the order of ids; at most auditWaiting
	number  uint16              // of the next entry
	lost    int64               // dropped and not told of yet
}

// NewAudit returns an Audit over store. Nothing is written until Run is called.
func NewAudit(store schema.AuditStore, now func() time.Time, log *slog.Logger, reg prometheus.Registerer) *Audit {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "carillon", Subsystem: "audit", Name: name, Help: help})
	}
	a := &Audit{
		store: store, now: now, log: log,
		written: counter("entries_written_total", "Entries of the audit log that a quorum holds."),
		dropped: counter("entries_dropped_total", "Entries of the audit log that were given up: more than 0 only after the store was away for long."),
		wake:    make(chan struct{}, 1),
	}
	reg.MustRegister(a.written, a.dropped)
	return a
}

// Note notes an act. It does not wait.
func (a *Audit) Note(act AuditEvent) {
	e := schema.AuditEntry{
		Tenant: act.Tenant, Actor: act.Actor, Action: act.Action, Object: act.Object,
		Before: bounded(act.Before), After: bounded(act.After), Note: act.Note,
	}
	a.mu.Lock()
	if len(a.waiting) >= auditWaiting {
		a.lost++
		first := a.lost == 1
		a.mu.Unlock()
		a.dropped.Inc()
		if first {
			a.log.Error("audit entries are dropped: too many wait for the store", "waiting", auditWaiting)
		}
		return
	}
	a.append(e)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// append gives e its place in the order of entries. The caller holds mu.
func (a *Audit) append(e schema.AuditEntry) {
	e.ID = schema.MakeAuditID(a.now(), a.number, rand.Uint64()) // #nosec G404 -- it tells nodes apart, no more
	a.number++
	e.At = e.ID.Time()
	a.waiting = append(a.waiting, e)
}

// bounded returns v as JSON, or the beginning of it as a JSON text.
func bounded(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		text, _ = json.Marshal("not to be written: " + err.Error()) // a string always can
	}
	if len(text) <= auditText {
		return text
	}
	// as above; half a character becomes a replacement
	cut, _ := json.Marshal(string(text[:auditText-len("…")]) + "…")
	return cut
}

// Run writes what was noted until ctx ends, and then what still waits, for at most 5 s. It returns
// nil.
func (a *Audit) Run(ctx context.Context) error {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(auditLast, cancel) })()
	for {
		select {
		case <-ctx.Done():
		case <-a.wake:
			select { // others may come
			case <-ctx.Done():
			case <-time.After(auditAge):
			}
		}
		for batch := a.take(); len(batch) > 0; batch = a.take() {
			a.write(last, batch)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// take takes the oldest entries that wait, at most a batch. What was dropped is told of once there
// is room.
func (a *Audit) take() []schema.AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.waiting), auditBatch)
	batch := a.waiting[:n:n]
	a.waiting = a.waiting[n:]
	if n == 0 {
		a.waiting = nil // let go of the memory of a rush
	}
	if a.lost > 0 {
		a.append(schema.AuditEntry{
			Tenant: schema.SystemTenant, Actor: "carillon", Action: "lose", Object: "audit",
			Note: fmt.Sprintf("%d entries, of any tenant, could not be written before this one", a.lost),
		})
		a.lost = 0
	}
	return batch
}

// write writes a batch, and goes on trying until ctx ends.
func (a *Audit) write(ctx context.Context, batch []schema.AuditEntry) {
	for {
		try, cancel := context.WithTimeout(ctx, auditTry)
		err := a.store.PutAudit(try, batch)
		cancel()
		if err == nil {
			a.written.Add(float64(len(batch)))
			return
		}
		if ctx.Err() != nil {
			a.dropped.Add(float64(len(batch)))
			a.log.Error("audit entries were lost at the end", "count", len(batch), "err", err)
			return
		}
		a.log.Warn("audit entries could not be written: trying again", "count", len(batch), "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(auditRetry):
		}
	}
}

// AuditQuery selects entries of a tenant, From ≤ at < To.
type AuditQuery struct {
	Tenant   string
	From, To time.Time
	Actor    string // "" = anybody
	Object   string // "" = any; "task/" = all of the kind
}

// auditDays and auditRows bound what one page of Entries reads.
const (
	auditDays = 60
	auditRows = 5_000
)

// AuditPosition is where a listing goes on: in a day, before an entry (zero: from its newest). Nil
// is the newest of the window.
type AuditPosition struct {
	Day    int            `json:"day"`
	Before schema.AuditID `json:"before,omitzero"`
}

// matches reports whether e is asked for.
func (q *AuditQuery) matches(e *schema.AuditEntry) bool {
	return !e.At.Before(q.From) && e.At.Before(q.To) && (q.Actor == "" || e.Actor == q.Actor) &&
		(q.Object == "" || e.Object == q.Object || strings.HasSuffix(q.Object, "/") && strings.HasPrefix(e.Object, q.Object))
}

// Entries returns the entries of q, newest first, at most limit of them, from pos on. A page reads
// a bounded number of days and rows, so it may hold fewer than limit, even none, and still name the
// next position.
func (a *Audit) Entries(ctx context.Context, q AuditQuery, pos *AuditPosition, limit int) ([]schema.AuditEntry, *AuditPosition, error) {
	first := schema.AuditDay(q.From)
	at := AuditPosition{Day: schema.AuditDay(q.To.Add(-time.Nanosecond))}
	if pos != nil {
		at = *pos
	}
	var found []schema.AuditEntry
	for days, rows := 0, 0; at.Day >= first; {
		if days == auditDays || rows >= auditRows {
			return found, &at, nil
		}
		page, err := a.store.Audit(ctx, q.Tenant, at.Day, at.Before, auditPage)
		if err != nil {
			return nil, nil, err
		}
		rows += len(page)
		for i := range page {
			at.Before = page[i].ID
			if page[i].At.Before(q.From) {
				return found, nil, nil // and all that follow
			}
			if !q.matches(&page[i]) {
				continue
			}
			if found = append(found, page[i]); len(found) == limit {
				return found, &at, nil
			}
		}
		if len(page) < auditPage {
			days++
			at = AuditPosition{Day: at.Day - 1}
		}
	}
	return found, nil, nil
}
