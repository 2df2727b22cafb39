package ring

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	rejoinInterval   = 15 * time.Second // for ever: it is what heals a partition
	conflictRetry    = 2 * time.Second  // after we found our name held by our former self
	conflictRetries  = 5                // so many times; by then it is dead
	firstJoinPause   = time.Second      // between attempts until a node has joined or goes on alone
	joinTimeout      = 5 * time.Second
	addressesPerJoin = 8 // that one attempt talks to
	refreshPeers     = 3 // live members an exchange tries besides the seeds
	lookupTimeout    = 2 * time.Second
)

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// keepJoining joins the seeds at start, and again every rejoinInterval until ctx ends. The ring
// counts as joined once a seed has answered, or joinTimeout has passed.
func (r *Ring) keepJoining(ctx context.Context, s *running) {
	joined := sync.OnceFunc(func() { close(s.joined) })
	alone := time.AfterFunc(joinTimeout, joined)
	defer alone.Stop()

	failing, hurry := false, 0
	for {
		err := r.join(ctx, s)
		if ctx.Err() != nil {
			return
		}
		wait := rejoinInterval
		if err == nil {
			joined()
		}
		switch {
		case !closed(s.joined):
			wait = firstJoinPause
		case hurry > 0:
			wait = conflictRetry
			hurry--
		}
		if err != nil && !failing {
			r.log.Warn("no seed reached", "err", err)
		} else if err == nil && failing {
			r.log.Info("seeds reached again")
		}
		failing = err != nil
		conflict, ok := r.waitOrConflict(ctx, wait)
		if !ok {
			return
		}
		if conflict {
			hurry = conflictRetries
		}
	}
}

// waitOrConflict waits for d, or for conflictRetry after our name was found in use. ok is false if
// ctx ended.
func (r *Ring) waitOrConflict(ctx context.Context, d time.Duration) (conflict, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	signalled := r.gossip.conflict
	for {
		select {
		case <-ctx.Done():
			return conflict, false
		case <-timer.C:
			return conflict, true
		case <-signalled:
			conflict, signalled = true, nil // conflicts that keep coming do not put it off
			timer.Reset(conflictRetry)
		}
	}
}

// join exchanges views with the seeds, those first that are not in our view. It fails if there are
// seeds besides ourselves and none of them answered.
func (r *Ring) join(ctx context.Context, s *running) error {
	r.metrics.rejoins.Inc()
	addrs, err := r.seeds(ctx, s.self)
	live := r.gossip.addresses()
	slices.SortStableFunc(addrs, func(a, b string) int { return rank(live[a]) - rank(live[b]) })
	reached, joinErr := talk(ctx, s, addrs[:min(len(addrs), addressesPerJoin)], len(addrs))
	if reached == 0 && (err != nil || joinErr != nil) {
		r.metrics.rejoinFailures.Inc()
		return errors.Join(err, joinErr)
	}
	return nil
}

// exchange swaps views with one other member: a live one if any answers, else a seed.
func (r *Ring) exchange(ctx context.Context, s *running) error {
	live := r.gossip.addresses()
	delete(live, s.self)
	var peers []string
	for a := range live {
		peers = append(peers, a) // a map's order is random enough
	}
	peers = peers[:min(len(peers), refreshPeers)]
	reached, peerErr := talk(ctx, s, peers, 1)
	if reached > 0 {
		return nil
	}
	seeds, err := r.seeds(ctx, s.self)
	reached, seedErr := talk(ctx, s, seeds[:min(len(seeds), addressesPerJoin)], 1)
	if err = errors.Join(peerErr, err, seedErr); reached == 0 && err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}

// talk swaps views with these addresses, one after the other, until enough have answered. It
// returns how many did, and the errors of the others.
func talk(ctx context.Context, s *running, addrs []string, enough int) (reached int, err error) {
	var faults []error
	for _, a := range addrs {
		if reached >= enough || ctx.Err() != nil {
			break
		}
		if _, err := s.list.Join([]string{a}); err != nil {
			faults = append(faults, fmt.Errorf("join %s: %w", a, err))
			continue
		}
		reached++
	}
	return reached, errors.Join(append(faults, ctx.Err())...)
}

// seeds looks the seeds up and returns their addresses, ours left out, each once, in random order.
// An error says which names could not be looked up.
func (r *Ring) seeds(ctx context.Context, self string) ([]string, error) {
	own, err := netip.ParseAddrPort(self)
	if err != nil {
		return nil, fmt.Errorf("our address %q: %w", self, err)
	}
	var addrs []string
	var faults []error
	for _, seed := range r.config.Seeds {
		found, err := r.resolve(ctx, seed, own.Port())
		if err != nil {
			faults = append(faults, fmt.Errorf("seed %s: %w", seed, err))
		}
		addrs = append(addrs, found...)
	}
	slices.Sort(addrs)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == self })
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs, errors.Join(faults...)
}

func (r *Ring) resolve(ctx context.Context, seed string, defaultPort uint16) ([]string, error) {
	host, port, err := splitSeed(seed, defaultPort)
	if err != nil {
		return nil, err
	}
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		if ips, err = r.config.lookup(ctx, host); err != nil {
			return nil, err
		}
	}
	var addrs []string
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), port).String())
	}
	return addrs, nil
}

// rank sorts members not in our view before those in it.
func rank(live bool) int {
	if live {
		return 1
	}
	return 0
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
