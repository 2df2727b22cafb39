package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// Bounds of a Config.
const (
	MaxSlots = 10_000_000
	MaxSpan  = 7 * 24 * time.Hour
	MaxRuns  = 20_000_000 // that may become due in all
	maxLoads = 100
	maxSteps = 200_000
)

// Load is a stream of runs that are alike.
type Load struct {
	Name     string          `json:"name"`
	Tenant   string          `json:"tenant,omitempty"` // "": one of its own
	Priority schema.Priority `json:"priority,omitempty"`

	Rate float64 `json:"rate,omitempty"` // runs due a second …
	Even bool    `json:"even,omitempty"` // … evenly spaced, not at random
	// Herd is how many runs are due at once, at HerdAt and then every HerdEvery (0: once).
	Herd      int           `json:"herd,omitempty"`
	HerdAt    time.Duration `json:"herd_at,omitempty"`
	HerdEvery time.Duration `json:"herd_every,omitempty"`
	Recorded  []Recorded    `json:"-"`

	Duration  Distribution `json:"-"`
	TaskRate  float64      `json:"task_rate,omitempty"`      // runs a second that its task may start; 0: any number
	TaskLimit int          `json:"max_concurrent,omitempty"` // runs of its task at once; 0: any number
}

// tenant returns whose runs these are.
func (l *Load) tenant() string { return cmp.Or(l.Tenant, "load/"+l.Name) }

// Recorded is a run as it was.
type Recorded struct {
	Due  time.Duration // after the first instant
	Took time.Duration
}

// Distribution is how long a run takes. Exactly one form is set.
type Distribution struct {
	low, high time.Duration // evenly between the two; the same: always that
	mean      time.Duration // exponential
	p50, p99  time.Duration // log-normal
}

// ParseDistribution reads "2s", "1s..3s" (evenly between), "mean=2s" (exponential) or
// "p50=200ms/p99=3s" (log-normal, the usual shape of calls).
func ParseDistribution(text string) (Distribution, error) {
	bad := func() (Distribution, error) {
		return Distribution{}, fmt.Errorf("%q is no duration such as 2s, 1s..3s, mean=2s or p50=200ms/p99=3s, of at most 24h", text)
	}
	span := func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= 0 && d <= 24*time.Hour
	}
	if mean, ok := strings.CutPrefix(text, "mean="); ok {
		d, ok := span(mean)
		if !ok || d == 0 {
			return bad()
		}
		return Distribution{mean: d}, nil
	}
	if rest, ok := strings.CutPrefix(text, "p50="); ok {
		half, tail, found := strings.Cut(rest, "/p99=")
		p50, ok1 := span(half)
		p99, ok2 := span(tail)
		if !found || !ok1 || !ok2 || p50 <= 0 || p99 < p50 {
			return bad()
		}
		return Distribution{p50: p50, p99: p99}, nil
	}
	from, to, between := strings.Cut(text, "..")
	if !between {
		to = from
	}
	low, ok1 := span(from)
	high, ok2 := span(to)
	if !ok1 || !ok2 || high < low {
		return bad()
	}
	return Distribution{low: low, high: high}, nil
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

func (d *Distribution) draw(rng *rand.Rand) time.Duration {
	switch {
	case d.mean > 0:
		return time.Duration(rng.ExpFloat64() * float64(d.mean))
	case d.p50 > 0:
		sigma := math.Log(float64(d.p99)/float64(d.p50)) / z99
		return time.Duration(float64(d.p50) * math.Exp(sigma*rng.NormFloat64()))
	case d.high > d.low:
		return d.low + time.Duration(rng.Int64N(int64(d.high-d.low+1)))
	}
	return d.low
}

// Mean returns the expected duration.
func (d *Distribution) Mean() time.Duration {
	switch {
	case d.mean > 0:
		return d.mean
	case d.p50 > 0:
		sigma := math.Log(float64(d.p99)/float64(d.p50)) / z99
		return time.Duration(float64(d.p50) * math.Exp(sigma*sigma/2))
	}
	return (d.low + d.high) / 2
}

// ParseLoad reads "name=reports,rate=50/s,duration=1s..3s,priority=low": members separated by
// commas. The error names every fault.
func ParseLoad(text string) (Load, error) {
	l := Load{Duration: Distribution{low: 200 * time.Millisecond, high: 200 * time.Millisecond}}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			fault("%q is no member such as rate=50/s", part)
			continue
		}
		if seen[key] {
			fault("%s stands twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "name":
			l.Name = value
		case "tenant":
			l.Tenant = value
		case "priority":
			if l.Priority = schema.Priority(value); !slices.Contains(schema.Priorities, l.Priority) {
				err = fmt.Errorf("%q is none of critical, high, normal, low", value)
			}
		case "rate":
			l.Rate, err = perSecond(value)
		case "even":
			l.Even, err = strconv.ParseBool(value)
		case "herd":
			l.Herd, err = whole(value, MaxRuns)
		case "at":
			l.HerdAt, err = positive(value)
		case "every":
			l.HerdEvery, err = positive(value)
		case "duration":
			l.Duration, err = ParseDistribution(value)
		case "task_rate":
			l.TaskRate, err = perSecond(value)
		case "max_concurrent":
			l.TaskLimit, err = whole(value, MaxSlots)
		default:
			err = errors.New("is none of name, tenant, priority, rate, even, herd, at, every, duration, task_rate, max_concurrent")
		}
		if err != nil {
			fault("%s: %w", key, err)
		}
	}
	if len(faults) == 0 && (l.Rate > 0) == (l.Herd > 0) {
		fault("must have either a rate or a herd")
	}
	if l.Herd == 0 && (seen["at"] || seen["every"]) || l.Rate == 0 && seen["even"] {
		fault("at and every go with herd, even with rate")
	}
	return l, errors.Join(faults...)
}

func whole(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%q is not a whole number from 1 to %d", text, most)
	}
	return n, nil
}

func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > MaxSpan {
		return 0, fmt.Errorf("%q is no span such as 10m, of at most %s", text, MaxSpan)
	}
	return d, nil
}

// perSecond reads "50/s", "30/m", "1000/h", or a number, which is a second.
func perSecond(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	in, ok := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(v > 0) || v > 1e7 {
		return 0, fmt.Errorf("%q is no rate such as 50/s, 30/m or 1000/h", text)
	}
	return v / in, nil
}
