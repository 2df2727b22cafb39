package admission

import (
	"errors"
	"maps"

	"carillon.dev/carillon/schema"
)

// A region that has lost the home of a limit can write its lease no more. Once no slot of the
// limits of that home is in use, the executor's session says that it has released all that it took
// in epochs before the next region's (schema.Session.Released). A long run of one limit so holds
// back the slots of the others, for as long as it takes.
//
// That goes for a home of which nothing is left here, too: a lease that was written last, to give
// slots back, may not have reached the next region, which then counts them for ever.

// epochOf returns the home of a limit, and in which epoch our region serves it.
func (k *QuotaAllocator) epochOf(key schema.LimitKey) (home string, epoch int64, err error) {
	if k.Epoch == nil {
		return "", 0, nil
	}
	return k.Epoch(key)
}

// release gives up all slots of the limits of a home that our region has lost, once none is in use:
// our session says so, for the leases cannot be written any more. It returns lost if that cannot be
// done yet.
func (k *QuotaAllocator) release(l *Load, home string, lost *schema.NotServedError) error {
	k.controller.mu.Lock()
	defer k.controller.mu.Unlock()
	l.block.home = home
	next := lost.Lease.Epoch
	if next.Number == 0 || next.Region == lost.Asked {
		return lost // nobody else serves it, as far as we know
	}
	var blocks []*block
	for l := range k.controller.limited {
		if b := l.block; b.home == home && b.epoch < next.Number {
			if l.busy > 0 {
				return lost
			}
			blocks = append(blocks, b)
		}
	}
	k.released[home] = max(k.released[home], next.Number)
	for _, b := range blocks {
		b.forfeit()
	}
	return nil
}

// forfeit notes that nothing of the block is ours. The caller holds the controller's mu.
func (b *block) forfeit() { b.held, b.usable, b.absent = 0, 0, true }

// Released returns of which homes we have given up the slots of limits (schema.Session.Released);
// nil: of none.
func (k *QuotaAllocator) Released() map[string]int64 {
	k.controller.mu.Lock()
	defer k.controller.mu.Unlock()
	for home, key := range k.had {
		k.releaseRest(home, key)
	}
	if len(k.released) == 0 {
		return nil
	}
	return maps.Clone(k.released)
}

// releaseRest releases what we gave back of the limits of a home, key among them, if our region has
// lost it since and has no block of it. The caller holds the controller's mu.
func (k *QuotaAllocator) releaseRest(home string, key schema.LimitKey) {
	var lost *schema.NotServedError
	if _, _, err := k.epochOf(key); !errors.As(err, &lost) {
		return
	}
	next := lost.Lease.Epoch
	if next.Number == 0 || next.Region == lost.Asked {
		return
	}
	for l := range k.controller.limited {
		if b := l.block; b.home == home && b.epoch < next.Number {
			return // its own step releases it
		}
	}
	k.released[home] = max(k.released[home], next.Number)
	delete(k.had, home)
}
