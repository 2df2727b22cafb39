package dispatcher

import (
	"context"
	"time"

	"carillon.dev/carillon/schema"
)

// wakeEvery is how often a shard's owner looks whether what limits hold back could start: who leaves a slot wakes the next one himself, unless he
// crashed.
const wakeEvery = 5 * time.Second

// startWake looks at a page of the limits of the shard that something waits for.
func (s *shard) startWake(ctx context.Context) {
	s.waking = true
	var after schema.LimitKey
	s.work(ctx, func(ctx context.Context) (err error) {
		after, err = s.d.writer.WakeShard(ctx, s.id, s.woken, s.d.live)
		return err
	}, func(now time.Time, err error) {
		s.waking = false
		if err != nil {
			s.failed(ctx, "wake", err)
		}
		if s.woken = after; after == "" || err != nil {
			s.nextWake = now.Add(wakeEvery)
		}
	})
}
