package bucketer

import (
	"context"
	"math/rand/v2"
	"sync"

	"carillon.dev/carillon/schema"
)

// A partition is to hold no more than MaxPartitionBytes. Most never come near that, and there are
// as many of them as minutes × shards, so a node remembers nothing of most:
//
//  1. Of each noticeEach bytes that a node writes it draws one at random, and notices the partition
//     to which that belongs. Into a partition that it has not noticed it has put about noticeEach:
//     more than k times that with a probability of e^-k, whatever else it writes and however
//     slowly.
//  2. Of a partition that it has noticed it counts what it puts in, and asks the store how much
//     lies there: at once, and again each time that it has put in an eighth of the room that was
//     left (at least noticeEach). So it knows what other nodes, and its own earlier lives, have put
//     there.
//
// Thus n nodes that fill one partition together pass the bound by n × noticeEach, if n ≤ 8, and by
// what they write while a question is under way. More nodes than that may pass it by an eighth of
// it each. Nobody waits for a question. A node that forgets a partition, at its end or for want of
// memory, notices it again after the next noticeEach.

const (
	// noticeEach is of how many bytes one draws attention to the partition that it is put into.
	noticeEach = 1 << 20
	// roomParts: a noticed partition is asked for again when so many'th part of its room was used.
	roomParts = 8
	// maxNoticed bounds the partitions that a node has noticed, in memory.
	maxNoticed = 20_000
	// maxSizing bounds the questions that wait. One that finds no place is asked when more was put
	// in.
	maxSizing = 256
	// sizePage is how many rows one read takes that is to find out how much lies in a partition.
	sizePage = 500
)

// fill knows how much lies in the partitions that this node has noticed.
type fill struct {
	ask chan schema.Partition // how much lies there?

	mu      sync.Mutex
	noticed map[schema.Partition]filled
}

// filled is a partition of which it is known how many bytes it has.
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
	// What was taken and could not be written leaves room, so one that is full is asked for as
	// well.
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

// give takes back what take counted and what was not written after all.
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

// size asks how many bytes lie in p, and notes it. Of what is on its way meanwhile some may be
// counted twice, or not at all, until the next time.
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

// sizeAll asks the store about the partitions that were noticed, one after the other, until ctx
// ends.
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

// bytesOf returns how many bytes lie in p, as take counts them. What is beyond the bound is not
// counted.
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
