package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/wait"
)

// The acts on links. A step names links as "a and b" (both directions) or "a to b". Each side is a
// member, or a kind: all members of it but the other side.
const (
	ActCut  Act = "cut"
	ActHeal Act = "heal"
)

const (
	andWord = " and "
	toWord  = " to "
)

// between names the links of both directions, toward those of one.
func between(a, b string) string { return a + andWord + b }
func toward(a, b string) string  { return a + toWord + b }

// outage cuts links for a while.
func outage(links string, from, to seconds) chain {
	return chain{do(from, ActCut, links), do(to, ActHeal, links)}
}

// A link is one direction between two members.
type link struct{ from, to string }

// linksOf returns the links that a step names.
func linksOf(text string, members []string) ([]link, error) {
	a, b, both := strings.Cut(text, andWord)
	if !both {
		var one bool
		if a, b, one = strings.Cut(text, toWord); !one {
			return nil, fmt.Errorf("%q names no links: it is neither %q nor %q", text, between("a", "b"), toward("a", "b"))
		}
	}
	var links []link
	for _, from := range sideOf(a, members) {
		for _, to := range sideOf(b, members) {
			if from == to {
				continue
			}
			links = append(links, link{from, to})
			if both {
				links = append(links, link{to, from})
			}
		}
	}
	if len(links) == 0 {
		return nil, fmt.Errorf("%q names no links of the members %q", text, members)
	}
	return links, nil
}

// sideOf returns the members that one side of a link means.
func sideOf(name string, members []string) []string {
	var side []string
	for _, m := range members {
		if m == name || strings.HasPrefix(m, name+"-") {
			side = append(side, m)
		}
	}
	return side
}

// actOnLinks cuts or heals. The note of a heal is the number of dropped packets: if it is 0,
// nothing was tested.
func (r *run) actOnLinks(ctx context.Context, s step) (note string, err error) {
	c := r.cluster()
	links, err := linksOf(s.member, memberNames(c))
	if err != nil {
		return "", err
	}
	do := c.Cut
	if s.act == ActHeal {
		do = c.Heal
	}
	var faults []error
	for _, l := range links {
		faults = append(faults, do(ctx, l.from, l.to))
	}
	if err := errors.Join(faults...); err != nil || s.act == ActCut {
		return "", err
	}
	total, err := r.droppedPackets(ctx)
	if err != nil {
		return "", err
	}
	r.record(func(rep *Report) {
		note = fmt.Sprintf("%d packets dropped", total-rep.DroppedPackets)
		rep.DroppedPackets = total
	})
	return note, nil
}

// droppedPackets is how many packets cuts have dropped so far.
func (r *members) droppedPackets(ctx context.Context) (int, error) {
	c, total := r.cluster(), 0
	for _, member := range memberNames(c) {
		n, err := c.Dropped(ctx, member)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// memberNames are the names of all members.
func memberNames(c *cluster.Cluster) []string {
	var all []string
	for name := range c.Status().PIDs() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

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
	found, err := wait.Poll(ctx, agreePoll, time.Now().Add(leaderLimit), func() (bool, error) {
		for _, url := range r.cluster().NATSURLs() { // some may be away
			all, err := nats.Streams(ctx, url)
			if i := slices.IndexFunc(all, func(s nats.Stream) bool { return s.Leader != "" }); err == nil && i >= 0 {
				name = all[i].Leader
				return true, nil
			}
		}
		return false, nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: no server leads a stream %s…", nats.ErrNATS, nats.StreamPrefix)
	}
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.led = name
	return name, nil
}
