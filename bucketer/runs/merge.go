package runs

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// mergeReads bounds the slices read at once for one listing.
const mergeReads = 16

// merge walks the entries of a window over all shards, in the order of their ids: by due time, then
// by shard. It goes bucket by bucket.
type merge struct {
	store  bucketer.Store
	window Window
	shards int
	page   int            // rows read of a shard at a time
	after  schema.EntryID // the last entry returned; zero at the start

	bucket  schema.Bucket
	streams []stream // of the bucket, one a shard; nil before the first read

	reads, rows int
	done        bool
}

// stream is what has been read of one partition and not returned yet.
type stream struct {
	entries []schema.Entry
	after   schema.EntryID // the last id read
	ended   bool
}

// next returns up to n entries; fewer only at the end of a bucket.
func (m *merge) next(ctx context.Context, n int) ([]schema.Entry, error) {
	if m.streams == nil {
		m.open()
	}
	var out []schema.Entry
	for len(out) < n {
		if err := m.refill(ctx); err != nil {
			return nil, err
		}
		least := -1
		for s := range m.streams {
			if len(m.streams[s].entries) == 0 {
				continue
			}
			if least < 0 || m.streams[s].entries[0].ID.Compare(m.streams[least].entries[0].ID) < 0 {
				least = s
			}
		}
		if least < 0 {
			m.advance()
			break
		}
		st := &m.streams[least]
		out = append(out, st.entries[0])
		m.after, st.entries = st.entries[0].ID, st.entries[1:]
	}
	return out, nil
}

// open makes the streams of the bucket in which the walk goes on.
func (m *merge) open() {
	start := m.window.From
	if !m.after.IsZero() && m.after.Time().After(start) {
		start = m.after.Time()
	}
	m.bucket = schema.BucketOf(start)
	m.streams = make([]stream, m.shards)
	for s := range m.streams {
		m.streams[s].after = m.floor(schema.Shard(s)) // #nosec G115 -- below MaxShards
	}
}

// floor returns the id of shard s after which the walk goes on.
func (m *merge) floor(s schema.Shard) schema.EntryID {
	switch {
	case m.after.IsZero() || m.after.Time().Before(m.window.From):
		return before(schema.FirstID(bucketer.CeilMilli(m.window.From), s))
	case s < m.after.Shard():
		return schema.LastID(m.after.Time(), s)
	case s == m.after.Shard():
		return m.after
	}
	return before(schema.FirstID(m.after.Time(), s))
}

// before returns the id that sorts right before id, which is a FirstID.
func before(id schema.EntryID) schema.EntryID {
	id[8] = 0 // the variant bits: below every id of that time and shard, above every earlier one
	return id
}

// advance goes on to the next bucket, or ends the walk.
func (m *merge) advance() {
	m.bucket++
	if !m.bucket.Start().Before(m.window.To) {
		m.done = true
		return
	}
	for s := range m.streams {
		m.streams[s] = stream{}
	}
	if end := before(schema.FirstID(m.bucket.Start(), 0)); m.after.Compare(end) < 0 {
		m.after = end
	}
}

// refill reads on until every shard has an entry at hand or has ended: only then is the least entry
// known. A page whose rows are all not understood leaves its shard without an entry, and does not
// end it.
func (m *merge) refill(ctx context.Context) error {
	wants := func(st stream) bool { return len(st.entries) == 0 && !st.ended }
	for !m.done && slices.ContainsFunc(m.streams, wants) {
		if err := m.readOn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readOn reads one page of every shard without an entry at hand.
func (m *merge) readOn(ctx context.Context) error {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(mergeReads)
	for s := range m.streams {
		st := &m.streams[s]
		if len(st.entries) > 0 || st.ended {
			continue
		}
		shard := schema.Shard(s) // #nosec G115 -- below MaxShards
		r := schema.IDRange{After: st.after}
		if m.bucket.End().After(m.window.To) {
			r.Before = schema.FirstID(bucketer.CeilMilli(m.window.To), shard)
		}
		m.reads++
		g.Go(func() error {
			p := schema.Partition{Bucket: m.bucket, Shard: shard}
			entries, err := m.store.Entries(ctx, p, r, m.page)
			if err != nil {
				return fmt.Errorf("entries in %s: %w", p, err)
			}
			mu.Lock()
			m.rows += len(entries)
			mu.Unlock()
			st.ended = len(entries) < m.page
			if len(entries) > 0 {
				st.after = entries[len(entries)-1].ID
			}
			st.entries = slices.DeleteFunc(entries, func(e schema.Entry) bool { return e.Fault != nil })
			return nil
		})
	}
	return g.Wait()
}
