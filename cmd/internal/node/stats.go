package node

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/schema"
)

const (
	// statsTimeout bounds the write of a minute's counts. Counts whose write fails are lost.
	statsTimeout = 10 * time.Second
	// lastStatsTimeout bounds the last write, when the node stops.
	lastStatsTimeout = 3 * time.Second
)

// statsWriter writes what this node did in each minute: the difference between two readings of its
// own metrics. So it costs a run nothing.
type statsWriter struct {
	store  schema.StatsStore
	gather prometheus.Gatherer
	node   string
	now    func() time.Time
	log    *slog.Logger

	last reading
}

// reading holds the values of the metrics at one instant.
type reading struct {
	published, redispatched, retried float64
	outcomes                         map[string]float64
	// starts, by upper bound of their class in seconds
	lateness map[float64]uint64
}

// run writes the counts at the end of every minute, and once more when ctx ends.
func (c *statsWriter) run(ctx context.Context) {
	began := c.now()
	// a process restarted within a minute must not overwrite the counts of the one before
	node := c.node + "@" + strconv.FormatInt(began.UnixMilli(), 36)
	c.last = c.read()
	minute := began.Truncate(time.Minute)
	for ctx.Err() == nil {
		timer := time.NewTimer(minute.Add(time.Minute).Sub(c.now()))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		is := c.read()
		m := is.since(c.last)
		m.Minute, m.Node, m.Written = minute.UTC(), node, c.now().UnixMicro()
		c.last = is
		minute = c.now().Truncate(time.Minute)
		// the timer was early, or the clock was set back: what is counted goes to the minute after
		if !minute.After(m.Minute) {
			minute = m.Minute.Add(time.Minute)
		}
		if m.Due == 0 && m.Started == 0 && m.Succeeded == 0 && m.Failed == 0 && m.Missed == 0 && m.Retried == 0 {
			continue
		}
		c.write(ctx, m)
	}
}

func (c *statsWriter) write(ctx context.Context, m schema.MinuteStats) {
	limit := statsTimeout
	if ctx.Err() != nil {
		limit = lastStatsTimeout
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := c.store.PutStats(bounded, m); err != nil {
		c.log.Warn("the counts of a minute could not be written", "minute", m.Minute, "err", err)
	}
}

// read reads the metrics.
func (c *statsWriter) read() reading {
	r := reading{outcomes: make(map[string]float64), lateness: make(map[float64]uint64)}
	families, err := c.gather.Gather()
	if err != nil { // those that could be gathered are there
		c.log.Warn("some metrics could not be gathered", "err", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v := m.GetCounter().GetValue()
			switch f.GetName() {
			case "carillon_dispatcher_published_total":
				r.published += v
			case "carillon_dispatcher_redispatched_total":
				r.redispatched += v
			case "carillon_entries_written_total":
				if labelled(m, "kind", "retry") {
					r.retried += v
				}
			case "carillon_executor_attempts_total":
				for _, l := range m.GetLabel() {
					if l.GetName() == "outcome" {
						r.outcomes[l.GetValue()] += v
					}
				}
			case "carillon_executor_lateness_seconds":
				addClasses(r.lateness, m.GetHistogram())
			}
		}
	}
	return r
}

func labelled(m *dto.Metric, name, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue() == value
		}
	}
	return false
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

// since returns the counts between two readings.
func (r reading) since(before reading) schema.MinuteStats {
	n := func(is, was float64) int64 { return max(int64(math.Round(is-was)), 0) }
	m := schema.MinuteStats{
		Due:     max(n(r.published, before.published)-n(r.redispatched, before.redispatched), 0),
		Retried: n(r.retried, before.retried),
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
