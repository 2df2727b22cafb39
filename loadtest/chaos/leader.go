package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/wait"
)

// streamLeader, as the member of a step, is the NATS server that leads a stream of Carillon's. A
// step that mends uses the server of the step that broke.
const streamLeader = "nats leader"

// leaderLimit bounds the wait for a leader: after a kill there is none for some seconds.
const leaderLimit = 20 * time.Second

// leader returns the server that streamLeader means in a step.
func (r *members) leader(ctx context.Context, act Act) (name string, err error) {
	if act == ActThaw || act == ActStart || act == ActLoosen {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.led, nil
	}
	for limit := time.Now().Add(leaderLimit); ; {
		for _, url := range r.cluster().NATSURLs() { // some may be away
			all, err := nats.Streams(ctx, url)
			if i := slices.IndexFunc(all, func(s nats.Stream) bool { return s.Leader != "" }); err == nil && i >= 0 {
				r.mu.Lock()
				r.led = all[i].Leader
				r.mu.Unlock()
				return all[i].Leader, nil
			}
		}
		if time.Now().After(limit) {
			return "", fmt.Errorf("%w: no server leads a stream %s…", nats.ErrNATS, nats.StreamPrefix)
		}
		if err := wait.For(ctx, agreePoll); err != nil {
			return "", err
		}
	}
}
