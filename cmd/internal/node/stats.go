package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

const (
	// statsTimeout bounds the writes of a minute's counts. Counts whose write fails are lost.
	statsTimeout = 10 * time.Second
	// lastStatsTimeout bounds the last writes, when the node stops.
	lastStatsTimeout = 3 * time.Second
	// tellFor is how long other nodes are still told of a minute that was written: longer than they
	// remember what they read (admin.Stats).
	tellFor = 10 * time.Second
	// maxEnded bounds the minutes that have ended and that other nodes are told of.
	maxEnded = 3
)

// statsWriter writes what this node did in each minute: the difference between two readings of its
// own metrics, and what was counted by name. So it costs a run next to nothing.
type statsWriter struct {
	store  schema.StatsStore
	gather prometheus.Gatherer
	tally  *tally.Tally
	node   string
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	life   string         // the node, and which of its lives
	minute time.Time      // that is under way; zero: nothing is counted yet
	last   reading        // at its begin
	turns  int            // minutes that have ended
	ended  []*endedMinute // that others are told of: they may not find them in the store yet
}

// endedMinute is what was counted in a minute.
type endedMinute struct {
	all   schema.MinuteStats
	names []schema.NameStats
	until time.Time // others are told of it; zero: it is not written yet
}

// reading holds the values of the metrics at one instant.
type reading struct {
	due, retried float64
	// Runs that were missed before an executor was asked, and all that were, by cause.
	missed   float64
	causes   map[string]float64
	outcomes map[string]float64
	// starts, by upper bound of their class in seconds …
	lateness map[float64]uint64
	fixed    schema.LatenessCounts // … and by the fixed classes
}

// run writes the counts at the end of every minute, and once more when ctx ends.
func (c *statsWriter) run(ctx context.Context) {
	minute := c.begin()
	for ctx.Err() == nil {
		timer := time.NewTimer(minute.Add(time.Minute).Sub(c.now()))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		var e *endedMinute
		if e, minute = c.turn(); e != nil {
			c.write(ctx, e)
		}
	}
}

// begin begins to count, and returns the minute under way.
func (c *statsWriter) begin() time.Time {
	is, now := c.read(), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	// a process restarted within a minute must not overwrite the counts of the one before
	c.life = c.node + "@" + strconv.FormatInt(now.UnixMilli(), 36)
	c.last, c.minute = is, now.UTC().Truncate(time.Minute)
	return c.minute
}

// turn ends the minute under way. It returns what was counted in it, nil if nothing was, and the
// minute that is under way then.
func (c *statsWriter) turn() (e *endedMinute, minute time.Time) {
	is, now := c.read(), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e = &endedMinute{all: is.since(c.last), names: c.tally.Take()}
	c.address(e, now)
	c.last = is
	c.turns++
	c.minute = now.UTC().Truncate(time.Minute)
	// the timer was early, or the clock was set back: what is counted goes to the minute after
	if !c.minute.After(e.all.Minute) {
		c.minute = e.all.Minute.Add(time.Minute)
	}
	c.ended = slices.DeleteFunc(c.ended, func(o *endedMinute) bool { return !o.until.IsZero() && now.After(o.until) })
	if e.all.Idle() && len(e.names) == 0 {
		return nil, c.minute
	}
	if c.ended = append(c.ended, e); len(c.ended) > maxEnded {
		c.ended = slices.Delete(c.ended, 0, 1)
	}
	return e, c.minute
}

// address says of what was counted in the minute under way where it is to be written; mu is held.
func (c *statsWriter) address(e *endedMinute, now time.Time) {
	e.all.Minute, e.all.Node, e.all.Written = c.minute, c.life, now.UnixMicro()
	for i := range e.names {
		n := &e.names[i]
		n.Minute, n.Node, n.Written = c.minute, c.life, now.UnixMicro()
	}
}

func (c *statsWriter) write(ctx context.Context, e *endedMinute) {
	limit := statsTimeout
	if ctx.Err() != nil {
		limit = lastStatsTimeout
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := c.store.PutStats(bounded, e.all)
	for _, n := range e.names {
		err = errors.Join(err, c.store.PutNameStats(bounded, n))
	}
	if err != nil {
		c.log.Warn("the counts of a minute could not be written", "minute", e.all.Minute, "err", err)
	}
	c.mu.Lock()
	e.until = c.now().Add(tellFor)
	c.mu.Unlock()
}

// told returns what others may not find in the store yet: what was counted so far in the minute under
// way, and minutes that have just ended. It is of all runs, or by the names of a kind if there is one.
func (c *statsWriter) told(kind schema.StatsKind) (minutes []schema.MinuteStats, names []schema.NameStats) {
	for {
		c.mu.Lock()
		turns, counts := c.turns, !c.minute.IsZero()
		c.mu.Unlock()
		if !counts {
			return nil, nil
		}
		var is reading
		if kind == "" {
			is = c.read()
		}
		c.mu.Lock()
		if turns == c.turns {
			minutes, names = c.toldOf(kind, is)
			c.mu.Unlock()
			return minutes, names
		}
		c.mu.Unlock() // a minute has ended meanwhile
	}
}

// toldOf returns what told returns; mu is held.
func (c *statsWriter) toldOf(kind schema.StatsKind, is reading) (minutes []schema.MinuteStats, names []schema.NameStats) {
	now := c.now()
	e := &endedMinute{}
	if kind == "" {
		e.all = is.since(c.last)
	} else {
		e.names = []schema.NameStats{c.tally.Names(kind)}
	}
	c.address(e, now)
	for _, e := range append(slices.Clone(c.ended), e) {
		if !e.until.IsZero() && now.After(e.until) {
			continue
		}
		if kind == "" && !e.all.Idle() {
			minutes = append(minutes, e.all)
		}
		for _, n := range e.names {
			if n.Kind == kind && len(n.Names) > 0 {
				names = append(names, n)
			}
		}
	}
	return minutes, names
}

// read reads the metrics.
func (c *statsWriter) read() reading {
	r := reading{outcomes: make(map[string]float64), causes: make(map[string]float64), lateness: make(map[float64]uint64)}
	families, err := c.gather.Gather()
	if err != nil { // those that could be gathered are there
		c.log.Warn("some metrics could not be gathered", "err", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v := m.GetCounter().GetValue()
			switch f.GetName() {
			case "carillon_dispatcher_due_total":
				r.due += v
			case "carillon_entries_written_total":
				if labelOf(m, "kind") == "retry" {
					r.retried += v
				}
			case "carillon_occurrences_missed_total":
				r.missed += v
				r.causes[labelOf(m, "cause")] += v
			case "carillon_executor_missed_total":
				r.causes[labelOf(m, "cause")] += v
			case "carillon_executor_attempts_total":
				r.outcomes[labelOf(m, "outcome")] += v
			case "carillon_executor_lateness_seconds":
				addClasses(r.lateness, m.GetHistogram())
				addFixed(&r.fixed, m.GetHistogram())
			}
		}
	}
	return r
}

// labelOf returns the value of a label, "" if it is not there.
func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// addClasses adds the classes of a native histogram. Values at or below the zero threshold form one
// class.
func addClasses(to map[float64]uint64, h *dto.Histogram) {
	if n := h.GetZeroCount(); n > 0 {
		to[h.GetZeroThreshold()] += n
	}
	// the upper bound of a class is base times that of the one before
	base := math.Exp2(math.Exp2(float64(-h.GetSchema())))
	index, count, i := int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		for range span.GetLength() {
			count += h.GetPositiveDelta()[i]
			to[math.Pow(base, float64(index))] += uint64(count) // #nosec G115 -- not negative
			index++
			i++
		}
	}
}

// addFixed adds the fixed classes of a histogram, if it has them.
func addFixed(to *schema.LatenessCounts, h *dto.Histogram) {
	buckets := h.GetBucket()
	if len(buckets) != len(schema.LatenessBounds) {
		return
	}
	below := uint64(0) // counts of a class hold those of the classes below it
	for i, b := range buckets {
		to[i] += int64(b.GetCumulativeCount() - below) // #nosec G115 -- counts
		below = b.GetCumulativeCount()
	}
	to[len(buckets)] += int64(h.GetSampleCount() - below) // #nosec G115 -- counts
}

// since returns the counts between two readings.
func (r reading) since(before reading) schema.MinuteStats {
	n := func(is, was float64) int64 { return max(int64(math.Round(is-was)), 0) }
	m := schema.MinuteStats{
		Due:     n(r.due, before.due),
		Retried: n(r.retried, before.retried),
		Missed:  n(r.missed, before.missed),
	}
	for outcome, is := range r.outcomes {
		count := n(is, before.outcomes[outcome])
		switch schema.Outcome(outcome) {
		case schema.Succeeded:
			m.Succeeded += count
		case schema.Missed:
			m.Missed += count
		case schema.Failed, schema.TimedOut, schema.Lost:
			m.Failed += count
		}
	}
	for cause, is := range r.causes {
		m.MissedFor.Count(cause, n(is, before.causes[cause]))
	}
	for i := range m.Fixed {
		m.Fixed[i] = max(r.fixed[i]-before.fixed[i], 0)
	}
	for _, end := range slices.Sorted(maps.Keys(r.lateness)) {
		is, was := r.lateness[end], before.lateness[end]
		if is <= was {
			continue
		}
		count := int64(is - was) // #nosec G115 -- a count
		m.Started += count
		m.Lateness = append(m.Lateness, schema.LatenessClass{UpTo: schema.Duration(end * float64(time.Second)), Count: count})
	}
	return m
}
