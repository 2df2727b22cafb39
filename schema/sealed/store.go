package sealed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"carillon.dev/carillon/schema"
)

// maxSaid bounds what is logged of keys: damaged data names any.
const maxSaid = 64

// Keys seals and opens (admin.Keyring).
type Keys interface {
	// SealRow returns text, sealed for a place. An error means that there is no key.
	SealRow(text []byte, place string) ([]byte, error)
	// OpenRow is the inverse, or schema.ErrSealed.
	OpenRow(sealed []byte, place string) ([]byte, error)
	// FirstKey returns the name of the key that seals; "": there is none.
	FirstKey() string
}

// Asks reports whether what is written of a tenant is sealed from now on.
type Asks func(ctx context.Context, tenant string) (bool, error)

// Store is a store that seals and opens: see the package. Its methods may be called from any
// goroutine.
type Store struct {
	below
	entryRows
	runRows
	jobRows
	noticeRows
	box *box
}

// below is the store before which a Store stands. What no role of Store has is its own.
type below struct{ schema.Store }

// The roles of a Store: what it seals before inner writes it, and opens after inner has read it.
type (
	entryRows struct {
		inner schema.Store
		box   *box
	}
	runRows    entryRows // attempts, parts, dead letters
	jobRows    entryRows // jobs, idempotency keys
	noticeRows entryRows // incidents, groups of notifications
)

// box seals and opens single things.
type box struct {
	keys Keys
	asks atomic.Pointer[Asks]
	log  *slog.Logger

	mu   sync.Mutex
	said map[string]bool // what was logged, once: of which keys
}

// New returns a Store before inner. Until Follow is called no tenant asks for it. log may be nil.
func New(inner schema.Store, keys Keys, log *slog.Logger) *Store {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &box{keys: keys, log: log, said: make(map[string]bool)}
	role := entryRows{inner, b}
	return &Store{below{inner}, role, runRows(role), jobRows(role), noticeRows(role), b}
}

// Follow has s seal what tenants write that ask for it.
func (s *Store) Follow(asks Asks) { s.box.asks.Store(&asks) }

// seals reports whether what is written of a tenant is sealed.
func (b *box) seals(ctx context.Context, tenant string) bool {
	asks := b.asks.Load()
	if asks == nil {
		return false
	}
	yes, err := (*asks)(ctx, tenant)
	if err != nil {
		return b.keys.FirstKey() != "" // what is sealed without need opens all the same
	}
	return yes
}

// openRow opens what was sealed for a place. It says once which older keys are still needed, and of
// which keys something could not be opened.
func (b *box) openRow(sealed []byte, place string) ([]byte, error) {
	text, err := b.keys.OpenRow(sealed, place)
	s, perr := schema.ParseSealed(sealed)
	if perr != nil || err == nil && s.Key == b.keys.FirstKey() {
		return text, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if what := fmt.Sprintf("%s %t", s.Key, err == nil); !b.said[what] && len(b.said) < maxSaid {
		b.said[what] = true
		if err == nil {
			b.log.Info("data of tenants is read that an older key encrypted: it is still needed", "key", s.Key)
		} else {
			b.log.Error("data of tenants cannot be opened", "key", s.Key, "err", err)
		}
	}
	return text, err
}

// placeOf is what the payload of an entry is sealed for: the run, which later entries of it share;
// or the entry under which payloads keeps a large one.
func placeOf(e *schema.Entry) string {
	if at, large := e.LargePayload(); large {
		return placeOfPayload(at)
	}
	return "entry\x00" + e.Run().String()
}

func placeOfPayload(at schema.EntryID) string { return "payload\x00" + at.String() }

// Seal returns the entries as they are stored. They are copies if anything had to be sealed.
func (s entryRows) Seal(ctx context.Context, entries []schema.Entry) ([]schema.Entry, error) {
	return s.box.entries(ctx, entries)
}

// SealOne returns the payload of an entry as it is stored, nil if it is stored as it is. It costs
// no allocation then.
func (s entryRows) SealOne(ctx context.Context, e *schema.Entry) ([]byte, error) {
	if len(e.Payload) == 0 || e.Fault != nil || schema.IsSealed(e.Payload) || !s.box.seals(ctx, e.Spec.Tenant) {
		return nil, nil
	}
	return s.box.keys.SealRow(e.Payload, placeOf(e))
}

func (b *box) entries(ctx context.Context, entries []schema.Entry) ([]schema.Entry, error) {
	var stored []schema.Entry
	var tenant string // of which seals is known
	var seals bool
	for i := range entries {
		e := &entries[i]
		if len(e.Payload) == 0 || e.Fault != nil || schema.IsSealed(e.Payload) {
			continue
		}
		if tenant != e.Spec.Tenant {
			tenant = e.Spec.Tenant
			seals = b.seals(ctx, tenant)
		}
		if !seals {
			continue
		}
		payload, err := b.keys.SealRow(e.Payload, placeOf(e))
		if err != nil {
			return nil, err
		}
		if stored == nil {
			stored = slices.Clone(entries)
		}
		stored[i].Payload = payload
	}
	if stored == nil {
		return entries, nil
	}
	return stored, nil
}

// open opens the payload of an entry, or leaves it as it is.
func (b *box) open(e *schema.Entry) {
	if !schema.IsSealed(e.Payload) {
		return
	}
	if text, err := b.openRow(e.Payload, placeOf(e)); err == nil {
		e.Payload = text
	}
}

// PutEntries implements schema.EntryWriter.
func (s entryRows) PutEntries(ctx context.Context, entries []schema.Entry) error {
	stored, err := s.box.entries(ctx, entries)
	if err != nil {
		return err
	}
	return s.inner.PutEntries(ctx, stored)
}

// Entries implements schema.EntryReader.
func (s entryRows) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	entries, err := s.inner.Entries(ctx, p, r, limit)
	for i := range entries {
		s.box.open(&entries[i])
	}
	return entries, err
}

// EntriesByID implements schema.EntryReader.
func (s entryRows) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	entries, err := s.inner.EntriesByID(ctx, p, ids)
	for i := range entries {
		s.box.open(&entries[i])
	}
	return entries, err
}

// Payload implements schema.EntryReader. A payload that cannot be opened comes as it is stored.
func (s entryRows) Payload(ctx context.Context, id schema.EntryID) ([]byte, error) {
	payload, err := s.inner.Payload(ctx, id)
	if err != nil || !schema.IsSealed(payload) {
		return payload, err
	}
	text, err := s.box.openRow(payload, placeOfPayload(id))
	if errors.Is(err, schema.ErrSealed) {
		return payload, nil
	}
	return text, err
}

// OpenPayload implements schema.PayloadOpener.
func (s entryRows) OpenPayload(e *schema.Entry) ([]byte, error) {
	if !schema.IsSealed(e.Payload) {
		return e.Payload, nil
	}
	return s.box.openRow(e.Payload, placeOf(e))
}

// carried is a Store whose entries come as they are stored.
type carried struct{ *Store }

// Carried returns s for who only passes entries on: they come with their payloads as they are
// stored.
func (s *Store) Carried() schema.Store { return carried{s} }

// Entries implements schema.EntryReader.
func (c carried) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	return c.Store.below.Entries(ctx, p, r, limit)
}

// EntriesByID implements schema.EntryReader.
func (c carried) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	return c.Store.below.EntriesByID(ctx, p, ids)
}

// Hints hands entries over as they are stored.
type Hints struct {
	To    schema.Hints
	Store *Store
}

// Near implements schema.Hints. What cannot be sealed is not handed over: hints are advice.
func (h Hints) Near(shard schema.Shard, entries []schema.Entry) {
	if stored, err := h.Store.Seal(context.Background(), entries); err == nil {
		h.To.Near(shard, stored)
	}
}
