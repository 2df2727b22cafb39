package clockcheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

const (
	// Every is how often the clock is compared with the others'.
	Every = 5 * time.Second
	// Timeout bounds one reading, with the look-up of the server's name. All are taken at once.
	Timeout = time.Second
	// HoldFor is how long the last verdict stands while too few hosts answer for another. A clock
	// that nobody sets drifts by less than schema.MaxClockSlip meanwhile.
	HoldFor = 10 * time.Minute
)

// Config is what a Clock needs. All but Set, Changed and Registerer must be set.
type Config struct {
	// Sources returns the clocks of all servers that are known.
	Sources func() []schema.HostClock
	// HostOf returns the host of a server: equal for all servers of one host, "" for those of ours.
	// The server counts as a host of its own, of the name returned, if there is an error: the name
	// cannot be resolved.
	HostOf func(ctx context.Context, server schema.HostClock) (host string, err error)
	// Read reads our clock: the wall clock, and at the same instant one that nobody sets.
	Read func() (wall time.Time, steady time.Duration)
	// Set asks for a comparison at once, because the clock may have been set.
	Set <-chan struct{}
	// Changed is called when a comparison leaves the clock off, or undecided from the start, and
	// when one finds it right again.
	Changed    func(off bool)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Clock knows whether the node's clock is right. Its methods may be called concurrently.
type Clock struct {
	cfg     Config
	metrics *metrics
	last    atomic.Pointer[comparison] // the last that was decided; nil: none yet
	latest  atomic.Pointer[judgement]  // also of one that was not

	mu  sync.Mutex // one comparison at a time
	was bool       // what Changed was last called with
}

// comparison is the result of reading the clocks once.
type comparison struct {
	wall   time.Time     // when it began, by our clock …
	steady time.Duration // … and by the one that nobody sets
	judgement
}

// New returns a clock that counts as off until its first comparison.
func New(cfg Config) (*Clock, error) {
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Clock{cfg: cfg, metrics: m}, nil
}

// Off reports whether the clock is off by more than it may be, or may be.
func (c *Clock) Off() bool {
	last := c.last.Load()
	if last == nil {
		return true
	}
	wall, steady := c.cfg.Read()
	return last.slip(wall, steady).Abs() > schema.MaxClockSlip || last.stale(steady) || last.verdict == off
}

// Err says why the clock counts as off, nil if it does not.
func (c *Clock) Err() error {
	last, latest := c.last.Load(), c.latest.Load()
	wall, steady := c.cfg.Read()
	switch {
	case latest == nil:
		return errors.New("the clock has not been compared with others yet")
	case last == nil:
		return fmt.Errorf("the clock has not been compared with enough others yet: %s", latest)
	case last.slip(wall, steady).Abs() > schema.MaxClockSlip:
		return fmt.Errorf("the clock was set by %v and has not been compared with enough others since",
			last.slip(wall, steady).Round(time.Millisecond))
	case last.verdict == off:
		return errors.New(last.String())
	case last.stale(steady):
		return fmt.Errorf("for %v too few hosts have answered to compare the clock with: %s",
			(steady - last.steady).Round(time.Second), latest)
	}
	return nil
}

// Unchecked reports that the clock is not off, and that no other host could tell.
func (c *Clock) Unchecked() bool {
	last := c.last.Load()
	return last != nil && last.verdict == unchecked
}

// slip returns by how much the clock was set since the comparison.
func (c *comparison) slip(wall time.Time, steady time.Duration) time.Duration {
	return wall.Round(0).Sub(c.wall.Round(0)) - (steady - c.steady)
}

// stale reports that the comparison is too old to be relied upon.
func (c *comparison) stale(steady time.Duration) bool { return steady-c.steady > HoldFor }

// Run compares at once whenever Set asks for it, and else each Every, until ctx ends. It returns
// nil.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		c.Compare(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.cfg.Set:
		}
	}
}

// Compare reads the other clocks, and judges ours. A clock that is set meanwhile counts as off
// until the next comparison: what was read before says nothing of it.
func (c *Clock) Compare(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, steady := c.cfg.Read()
	found := judge(c.read(ctx))
	if ctx.Err() != nil {
		return
	}
	c.warn(found.unresolved)
	c.latest.Store(&found)
	c.metrics.observe(found)
	if found.verdict != undecided {
		before := c.last.Swap(&comparison{wall, steady, found})
		if found.verdict == unchecked && (before == nil || before.verdict != unchecked) {
			c.cfg.Logger.Warn("the clock of this node is unchecked: no other host has a clock to compare with")
		}
	}
	c.tell()
}

// warn logs the names that cannot be resolved, if they are others than before.
func (c *Clock) warn(unresolved []string) {
	var before []string
	if latest := c.latest.Load(); latest != nil {
		before = latest.unresolved
	}
	if len(unresolved) > 0 && !slices.Equal(before, unresolved) {
		c.cfg.Logger.Warn("names of servers cannot be resolved: each counts as a host of its own", "names", unresolved)
	}
}

// tell logs whether the clock is off, and calls Changed, if that has changed. A clock that is right
// from the start is no change.
func (c *Clock) tell() {
	err := c.Err()
	is := err != nil
	if is == c.was {
		return
	}
	c.was = is
	if is {
		c.cfg.Logger.Error("this node dispatches nothing and refuses writes", "err", err)
	} else {
		c.cfg.Logger.Info("the clock is right: this node dispatches and takes writes again", "votes", c.latest.Load().String())
	}
	if c.cfg.Changed != nil {
		c.cfg.Changed(is)
	}
}

// read asks all other hosts at once. Of the answers of one host the quickest counts.
func (c *Clock) read(ctx context.Context) []reading {
	sources := c.cfg.Sources()
	answers := make([]reading, len(sources))
	var asked sync.WaitGroup
	for i, s := range sources {
		asked.Go(func() { answers[i] = c.ask(ctx, s) })
	}
	asked.Wait()
	best := make(map[string]int)
	var readings []reading
	for _, a := range answers {
		i, met := best[a.host]
		switch {
		case !met:
			best[a.host] = len(readings)
			readings = append(readings, a)
		case !a.silent && (readings[i].silent || a.margin < readings[i].margin):
			readings[i] = a
		}
	}
	return readings
}

// ask reads the clock of s, unless it is that of our host.
func (c *Clock) ask(ctx context.Context, s schema.HostClock) reading {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	host, err := c.cfg.HostOf(ctx, s)
	r := reading{host: host, silent: true, unresolved: err != nil}
	if err != nil {
		c.cfg.Logger.Debug("the name of a server was not resolved", "host", s.Host, "err", err)
	}
	if host == "" {
		return r
	}
	wall, sent := c.cfg.Read()
	theirs, err := s.Time(ctx)
	_, heard := c.cfg.Read()
	took := heard - sent
	if err != nil {
		c.cfg.Logger.Debug("a clock was not read", "host", s.Host, "err", err)
		return r
	}
	if took > Timeout {
		return r
	}
	// They read theirs somewhere between sent and heard.
	r.silent, r.margin, r.offset = false, took/2, wall.Round(0).Add(took/2).Sub(theirs.Round(0))
	return r
}
