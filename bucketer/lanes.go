package bucketer

import (
	"context"
	"fmt"

	"carillon.dev/carillon/schema"
)

// changeLanes is how many conditional writes of jobs a node has under way at once, at most one of a shard.
const changeLanes = 64

// lanes have the conditional writes of a shard's jobs follow one another. They lie in one partition, and so they are for one register: of several at
// once all but one are refused by the ballots of the others, begin again, and refuse those: of five hundred changes at once on 64 shards a third were known
// too late. Nodes do not wait for each other: there are few of them.
type lanes [changeLanes]chan struct{}

func newLanes() (l lanes) {
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return l
}

// enter waits for the lane of a shard. Who has it calls leave once its write is known, or known to be unknown.
func (l *lanes) enter(ctx context.Context, shard schema.Shard) (leave func(), err error) {
	lane := l[int(shard)%changeLanes]
	select {
	case lane <- struct{}{}:
		return func() { <-lane }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: other jobs of shard %d are being changed: %w", schema.ErrUnavailable, shard, ctx.Err())
	}
}
