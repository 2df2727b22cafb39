package schematest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// patience bounds the wait for what a store does by itself: let a row expire.
const patience = time.Minute

// Exercise checks that the stores that open returns keep the contract. Each subtest opens one; open
// registers its closing with t.Cleanup. Stores may share their rows: every subtest uses its own
// tenants, executors and partitions (far in the future), drawn at random. A few wait until rows
// that live for two seconds, by the store's clock, have expired.
func Exercise(t *testing.T, open func(t *testing.T) schema.Store) {
	for _, group := range []struct {
		name  string
		rules []rule
	}{
		{"entries", entryRules},
		{"marks", markRules},
		{"attempts", attemptRules},
		{"outputs", outputRules},
		{"sessions", sessionRules},
		{"keys", keyRules},
		{"cursors", cursorRules},
		{"settings", settingsRules},
		{"documents", documentRules},
		{"rates", rateRules},
		{"jobs", jobRules},
		{"names", nameRules},
		{"lists", listRules},
		{"history", historyRules},
		{"decisions", decisionRules},
		{"leases", leaseRules},
		{"blocks", blockRules},
		{"wait lists", waitListRules},
		{"api keys", apiKeyRules},
		{"signing keys", signingRules},
		{"secrets", secretRules},
		{"subscriptions", subscriptionRules},
		{"notifications", notificationRules},
		{"audit", auditRules},
		{"stats", statsRules},
		{"operations", operationRules},
		{"dead letters", deadLetterRules},
		{"of many at once one wins", raceRules},
		{"calls", callRules},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, r := range group.rules {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					r.check(newBench(t, open(t)))
				})
			}
		})
	}
}

// rule is one sentence of the contract and its test.
type rule struct {
	name  string
	check func(b *bench)
}

// bench is what a rule is tested with: a store, and names that nobody else uses. It has more than
// 25 methods because every role adds helpers for its rules, each beside those rules.
type bench struct {
	*testing.T
	ctx    context.Context
	store  schema.Store
	rnd    *rand.Rand
	tenant string
	now    time.Time // the store's, at the beginning, to the ms
}

func newBench(t *testing.T, store schema.Store) *bench {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := &bench{T: t, ctx: t.Context(), store: store, rnd: rand.New(rand.NewPCG(seed, 0))}
	b.tenant = fmt.Sprintf("tenant-%016x", b.rnd.Uint64())
	now, err := store.Time(b.ctx)
	b.must(err, "Time")
	b.now = now.UTC().Truncate(time.Millisecond)
	return b
}

// must ends the test if a call that has to work did not.
func (b *bench) must(err error, format string, args ...any) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s = %v, want no error", fmt.Sprintf(format, args...), err)
	}
}

// wantErr checks that err is want.
func (b *bench) wantErr(err, want error, format string, args ...any) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s = %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// partition draws a partition between the years 2100 and 6000.
func (b *bench) partition() schema.Partition {
	first, last := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(6000, 1, 1, 0, 0, 0, 0, time.UTC)
	bucket := schema.BucketOf(first) + schema.Bucket(b.rnd.Int64N(int64(schema.BucketOf(last)-schema.BucketOf(first))))
	return schema.Partition{Bucket: bucket, Shard: schema.Shard(b.rnd.IntN(schema.MaxShards))} // #nosec G115 -- small
}

// id draws an id within p, at that many ms after its begin.
func (b *bench) id(p schema.Partition, ms int) schema.EntryID {
	return schema.MakeEntryID(p.Bucket.Start().Add(time.Duration(ms)*time.Millisecond), p.Shard, b.rnd.Uint64())
}

// ids draws n ids within p, in order, one every 10 ms.
func (b *bench) ids(p schema.Partition, n int) []schema.EntryID {
	ids := make([]schema.EntryID, n)
	for i := range ids {
		ids[i] = b.id(p, 10*i)
	}
	return ids
}

// later is an expiry after the end of any test.
func (b *bench) later() time.Time { return b.now.Add(time.Hour) }

// soon is an expiry that tests wait for.
func (b *bench) soon() time.Time { return b.now.Add(2 * time.Second) }

// entry makes an entry accepted at the beginning of the test.
func (b *bench) entry(id schema.EntryID, payload string) schema.Entry {
	return b.version(id, 0, "task", payload, b.later())
}

// version makes an entry that was accepted age µs after the beginning of the test.
func (b *bench) version(id schema.EntryID, age int64, task, payload string, expires time.Time) schema.Entry {
	b.Helper()
	spec := schema.Spec{Tenant: b.tenant, Nominal: id.Time(), Accepted: b.now.UnixMicro() + age, Task: task}
	var body []byte
	if payload != "" {
		body = []byte(payload)
	}
	e, err := schema.NewEntry(id, spec, body, expires)
	b.must(err, "NewEntry")
	return e
}

// put writes the entries.
func (b *bench) put(entries ...schema.Entry) {
	b.Helper()
	b.must(b.store.PutEntries(b.ctx, entries), "PutEntries of %d", len(entries))
}

// all reads the whole of p.
func (b *bench) all(p schema.Partition) []schema.Entry {
	b.Helper()
	entries, err := b.store.Entries(b.ctx, p, schema.IDRange{}, 10_000)
	b.must(err, "Entries of %s", p)
	return entries
}

// one reads the only entry that p holds.
func (b *bench) one(p schema.Partition) schema.Entry {
	b.Helper()
	entries := b.all(p)
	if len(entries) != 1 {
		b.Fatalf("Entries of %s = %d entries, want 1", p, len(entries))
	}
	return entries[0]
}

// idsOf returns the ids of entries.
func idsOf(entries []schema.Entry) []schema.EntryID {
	ids := make([]schema.EntryID, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	return ids
}

// wantIDs compares ids.
func (b *bench) wantIDs(got, want []schema.EntryID, format string, args ...any) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s = %d ids:\n\t%v\nwant %d:\n\t%v", fmt.Sprintf(format, args...), len(got), got, len(want), want)
	}
}

// wantEntry compares an entry read with one written.
func (b *bench) wantEntry(got, want schema.Entry) {
	b.Helper()
	if got.ID != want.ID || string(got.Text()) != string(want.Text()) || string(got.Payload) != string(want.Payload) {
		b.Errorf("entry read = %s %s, payload %.60q (%d bytes);\nwant %s %s, payload %.60q (%d bytes)",
			got.ID, got.Text(), got.Payload, len(got.Payload), want.ID, want.Text(), want.Payload, len(want.Payload))
	}
	if got.Fault == nil && !reflect.DeepEqual(got.Spec, want.Spec) {
		b.Errorf("spec read = %+v, want %+v", got.Spec, want.Spec)
	}
}

// eventually polls until is holds. It is for what only time brings about.
func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			b.Fatalf("after %v, not yet: %s", patience, what)
		}
	}
}

// maxListed bounds what is read of a list: a rule that lists more has a fault.
const maxListed = 1000

// pages reads a list page by page: read returns a page of at most limit after last, nil at first. A
// page with fewer is the last one.
func pages[T any](b *bench, what string, limit int, read func(last *T) ([]T, error)) (all []T) {
	b.Helper()
	for len(all) <= maxListed {
		var last *T
		if len(all) > 0 {
			last = &all[len(all)-1]
		}
		page, err := read(last)
		b.must(err, "%s, limit %d", what, limit)
		if len(page) > limit {
			b.Fatalf("%s, limit %d = %d, want at most that", what, limit, len(page))
		}
		all = append(all, page...)
		if len(page) < limit {
			break
		}
	}
	return all
}

// or returns what follows from last, or the zero value if there is none.
func or[T, K any](last *T, key func(*T) K) (k K) {
	if last != nil {
		k = key(last)
	}
	return k
}

// Whether conditional writes exclude each other is tried in so many rounds, by so many at once.
const (
	raceRounds = 10
	racers     = 6
)

// race calls do n times at once, and waits for all.
func race(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// text returns n bytes.
func text(n int) string { return strings.Repeat("x", n) }
