package bucketer

import (
	"context"
	"math/rand/v2"
	"sync"

	"carillon.dev/carillon/schema"
)

// A partition holds at most MaxPartitionBytes. Few partitions come near that, and there are
// minutes × shards of them. So a node remembers nothing of most:
//
//  1. Of each noticeEach bytes that it writes it draws one at random, and notices the partition of
//     that byte. It has put about noticeEach into a partition that it has not noticed, and more
//     than k × noticeEach with probability e^-k.
//  2. It counts what it puts into a noticed partition, and asks the store how much is there: at
//     once, and again after each eighth of the room that was left (at least noticeEach). So it
//     learns what other nodes, and its own earlier lives, have put there.
//
// So nodes that fill one partition together exceed the bound by at most:
//
//	n ≤ 8 nodes    n × noticeEach, and what they write while the store is being asked
//	more nodes     an eighth of the bound each
//
// No write waits for such a question. A node that forgets a partition, at its end or for lack of
// memory, notices it again after about noticeEach.

const (
	// noticeEach is how many bytes are written on average before their partition is noticed.
	noticeEach = 1 << 20
	// roomParts: a noticed partition is asked about again after 1/roomParts of its room was used.
	roomParts = 8
	// maxNoticed bounds the partitions that a node has noticed, in memory.
	maxNoticed = 20_000
	// maxSizing bounds the partitions that wait to be asked about. One that finds no place is asked
	// about after the next write into it.
	maxSizing = 256
	// sizePage is how many rows one read of a partition's size takes.
	sizePage = 500
)

// fill knows how full the partitions are that this node has noticed.
type fill struct {
	ask chan schema.Partition // to be asked about

	mu      sync.Mutex
	noticed map[schema.Partition]filled
}

// filled is how full a partition is.
type filled struct {
	stored int  // as the store said
	taken  int  // put in since then, by this node
	asking bool // the store is being asked, or will be
	next   int  // at how much taken it is to be asked
}

func newFill() *fill {
	return &fill{ask: make(chan schema.Partition, maxSizing), noticed: make(map[schema.Partition]filled)}
}

// take counts n bytes into p and reports whether they fit, as far as this node knows.
func (f *fill) take(p schema.Partition, n int) bool {
	drawn := rand.IntN(noticeEach) < n // #nosec G404 -- a sample, not secrecy
	f.mu.Lock()
	defer f.mu.Unlock()
	is, known := f.noticed[p]
	if !known {
		if !drawn {
			return true
		}
		if len(f.noticed) >= maxNoticed {
			for other := range f.noticed { // any
				delete(f.noticed, other)
				break
			}
		}
	}
	fits := is.stored+is.taken+n <= MaxPartitionBytes
	if fits {
		is.taken += n
	}
	// A full partition is asked about as well: what was counted may not have been written.
	if !is.asking && (is.taken >= is.next || !fits && is.taken > 0) {
		select {
		case f.ask <- p:
			is.asking = true
		default:
		}
	}
	f.noticed[p] = is
	return fits
}

// give takes back n bytes that take counted and that were not written.
func (f *fill) give(p schema.Partition, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is, known := f.noticed[p]; known {
		is.taken = max(is.taken-n, 0)
		f.noticed[p] = is
	}
}

// forget drops what is known of every bucket before b.
func (f *fill) forget(b schema.Bucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.noticed {
		if p.Bucket < b {
			delete(f.noticed, p)
		}
	}
}

// size asks how many bytes p has, and notes it. What is being written meanwhile may be counted
// twice, or not at all, until the next time.
func (f *fill) size(p schema.Partition, stored func() (int, error)) error {
	f.mu.Lock()
	before := f.noticed[p].taken
	f.mu.Unlock()
	bytes, err := stored()
	f.mu.Lock()
	defer f.mu.Unlock()
	is, known := f.noticed[p]
	if !known {
		return err
	}
	is.asking, is.next = false, is.taken+noticeEach
	if err == nil {
		is.stored, is.taken = bytes, max(is.taken-before, 0)
		is.next = is.taken + max((MaxPartitionBytes-is.stored)/roomParts, noticeEach)
	}
	f.noticed[p] = is
	return err
}

// sizeAll asks the store about noticed partitions, one after the other, until ctx ends.
func (b *Bucketer) sizeAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-b.fill.ask:
			if err := b.fill.size(p, func() (int, error) { return b.bytesOf(ctx, p) }); err != nil && ctx.Err() == nil {
				b.log.Warn("how much lies in a partition could not be read", "partition", p, "err", err)
			}
		}
	}
}

// bytesOf returns how many bytes p has, as take counts them, up to about MaxPartitionBytes.
func (b *Bucketer) bytesOf(ctx context.Context, p schema.Partition) (bytes int, err error) {
	for r := (schema.IDRange{}); bytes < MaxPartitionBytes; {
		rows, err := b.store.Entries(ctx, p, r, sizePage)
		if err != nil {
			return 0, err
		}
		for i := range rows {
			e := &rows[i]
			bytes += e.Size()
			if at, large := e.LargePayload(); large && at == e.ID {
				bytes += e.Spec.PayloadSize
			}
		}
		if len(rows) < sizePage {
			break
		}
		r.After = rows[len(rows)-1].ID
	}
	return bytes, nil
}
