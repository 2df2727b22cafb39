package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/wait"
)

// With --jobs, R begins with recurring jobs that stay: each runs once a day. They are imported, and
// a share of them is due at one instant, as jobs are that all run at a full hour: that herd is
// measured. The others are due at seconds of the day that are spread over dailySpread from
// dailyAway after the herd on, so that none of them runs while anything is measured.
const (
	dailyAway   = 2 * time.Hour
	dailySpread = 21 * time.Hour
	// dailyProbes are imported first, to learn how fast such lines are taken in.
	dailyProbes = 5000
	// dailySlower is how many times as slow the import is than they are, in the end: the first
	// instant must lie after it.
	dailySlower = 3
	// hourVariant is what the measurement of the herd is called.
	hourVariant = "hour"
	// mendVariant is what that of looking through them is called.
	mendVariant = "mend"
)

// hour is the batch of c.Jobs daily jobs, a share of which is due at one instant.
func (c Config) hour(round int) batch {
	n := max(int(float64(c.Jobs)*c.OnHour), 1)
	return batch{protocol: "R", variant: hourVariant, n: n, daily: c.Jobs, target: httpTarget, round: round}
}

// A Mend is how the nodes look through their recurring jobs for some without a next run, while
// nothing runs.
type Mend struct {
	Jobs  int     `json:"jobs"`        // that were looked through …
	Span  float64 `json:"span_s"`      // … in this time
	Page  float64 `json:"page_ms"`     // for mendPage of them, mean
	Pass  float64 `json:"pass_s"`      // for all, at this pace
	Reads float64 `json:"reads_a_job"` // statements of Cassandra; 0 = not told
}

// mendPage is how many jobs a node looks through in one step (package dispatcher).
const mendPage = 50

// mendStatements are those by which jobs are looked through.
var mendStatements = []string{"select_jobs_of", "select_entries_by_id"}

// mendOf makes figures of what the nodes' counters grew by while they looked through jobs, of which
// there are so many; nil if they looked through none.
func mendOf(d metrics.Values, span time.Duration, jobs int) *Mend {
	looked, took := d[metricLooked], d[metricLookedTime]
	if looked <= 0 {
		return nil
	}
	m := &Mend{Jobs: int(looked), Span: span.Seconds(), Page: 1000 * mendPage * took / looked}
	m.Pass = float64(jobs) / (looked / span.Seconds())
	for _, statement := range mendStatements {
		for key, n := range d {
			if strings.HasPrefix(key, metricStatements+"{") && strings.Contains(key, `"`+statement+`"`) {
				m.Reads += n / looked
			}
		}
	}
	return m
}

// String returns the figures in a line.
func (m *Mend) String() string {
	return fmt.Sprintf("mend: %s jobs looked through in %g s, %s ms for %d, %s reads each; %s for all",
		grouped(int64(m.Jobs)), m.Span, amount(m.Page, ""), mendPage, amount(m.Reads, ""), time.Duration(m.Pass*float64(time.Second)).Round(time.Second))
}

// mend is the step that watches how the nodes look through the daily jobs while nothing runs.
func (c Config) mend(round int) step {
	return func(ctx context.Context, b *bench, sys system) error {
		if err := b.quiet(ctx, sys); err != nil {
			return err
		}
		r := b.result(ctx, sys, "R", mendVariant, httpTarget, round)
		r.N, r.Jobs, r.Span = c.Jobs, c.Jobs, c.Mend.Seconds()
		held, m := b.memory(ctx, sys), b.meter(ctx, sys)
		if err := wait.For(ctx, c.Mend); err != nil {
			return err
		}
		grew := m.costs(ctx, r, r.N)
		r.Mend, r.Scans, r.Memory = mendOf(grew, time.Since(m.base.at), c.Jobs), scansOf(grew), grown(held, b.memory(ctx, sys))
		return b.keep(r)
	}
}

// dailyDue returns when a job that runs daily is due first: in whole seconds, at `from` or far from
// it.
func (j jobs) dailyDue(line int) time.Time {
	if line <= j.together {
		return j.from
	}
	return j.from.Add(dailyAway + time.Duration(mix(j.seed, uint64(line))%uint64(dailySpread.Seconds()))*time.Second) // #nosec G115 -- positive, below the spread
}

// appendDaily adds the schedule of a job that runs daily.
func (j jobs) appendDaily(b []byte, line int) []byte {
	at := j.dailyDue(line).UTC()
	return fmt.Appendf(b, `,"schedule":{"cron":"%d %d %d * * *"},"jitter":"0s"`, at.Second(), at.Minute(), at.Hour())
}

// probeDaily imports some daily jobs and returns how many lines a second a large import has at
// least.
func probeDaily(ctx context.Context, b *bench, sys system, w batch) (perS float64, err error) {
	j := b.jobs(min(dailyProbes, w.daily), time.Now().Truncate(time.Second), 0, w.target, nowhere)
	j.daily = true
	l, err := b.load(ctx, sys, j)
	if err != nil {
		return 0, err
	}
	return l.PerS / dailySlower, nil
}

// herd is the runs of daily jobs that are due at one instant. The other jobs have none yet.
type herd struct{ jobs }

func (h herd) count() int { return h.together }

func (h herd) dueOf(int) time.Time { return h.from }

// runOf finds the run of a call. A call that names another instant is of no run.
func (h herd) runOf(s *check.Sighting) (int, bool) {
	return s.Ref.Line - 1, s.Ref.Line >= 1 && s.Ref.Line <= h.together && s.Due.Equal(h.from)
}
