package recurring

import (
	"context"
	"fmt"

	"carillon.dev/carillon/schema"
)

// shardLockCount is how many conditional writes of jobs a node has under way at once, at most one a
// shard.
const shardLockCount = 64

// shardLocks make the conditional writes of a shard's jobs follow one another on this node. These
// jobs are in one partition, so Cassandra runs their writes on one Paxos register. Of several at
// once, all but one are refused by the ballots of the others, begin again, and refuse those in
// turn. With 500 changes at once on 64 shards, a third were known too late. Nodes do not wait for
// each other, because they are few.
type shardLocks [shardLockCount]chan struct{}

func newShardLocks() (l shardLocks) {
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return l
}

// acquire waits for the lock of a shard. The caller calls release once the outcome of its write is
// known, or known to be unknown.
func (l *shardLocks) acquire(ctx context.Context, shard schema.Shard) (release func(), err error) {
	lock := l[int(shard)%shardLockCount]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: other jobs of shard %d are being changed: %w", schema.ErrUnavailable, shard, ctx.Err())
	}
}
