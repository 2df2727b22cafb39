package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// soakPart is the span of the jobs of one import of a soak, which is imported that long before.
	soakPart = 30 * time.Second
	// soakLine is the distance of two lines of a soak's record; shorter in a short one.
	soakLine  = time.Minute
	soakLines = 20
	// A fault comes about each soakFault, and none in the last soakCalm.
	soakFault = time.Minute
	soakCalm  = 75 * time.Second
	// soakWarm is the part of the span that does not count for flatness: caches and heaps fill.
	soakWarm = 0.3
	// leastLines is how many lines a slope needs.
	leastLines = 6
)

// A soakCourse is the course of Soak.
type soakCourse struct{ countedCourse }

// A SoakLine is one line of a soak's record.
type SoakLine struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"after_first_due_s"`
	// Arrivals, Duplicates, Early and Late count since the line before. Missing counts all that
	// were due the bound on lateness ago and have not been seen.
	Arrivals   int            `json:"arrivals"`
	Duplicates int            `json:"duplicates"`
	Early      int            `json:"early"`
	Missing    int            `json:"missing"`
	Late       check.Lateness `json:"lateness"`
	Queued     string         `json:"queued"`
	// Members are the resources of each. A restart changes the pid.
	Members map[string]Resources `json:"members"`
}

func (r soakCourse) file() string { return filepath.Join(r.cfg.Dir, "soak.ndjson") }

// play keeps up a load with occasional faults, and records what it sees at once.
func (r soakCourse) play(ctx context.Context) error {
	begin, start, t0, err := r.idleFor(ctx, soakPart)
	if err != nil {
		return err
	}
	t := newTally()
	f, err := createNew(r.file())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // each line is written at once
	r.log.Info("soaking", "span", r.cfg.Span, "rate", r.cfg.Rate, "record", r.file())

	parts := int(r.cfg.Span / soakPart)
	r.keepDue(t0.Add(time.Duration(parts) * soakPart))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.importParts(gctx, t, t0, parts) })
	g.Go(func() error { return r.breakOften(gctx, t0) })
	var lines []SoakLine
	every := min(soakLine, r.cfg.Span/soakLines)
	next := t0.Add(every)
	g.Go(func() error {
		return r.counting(gctx, t, func(now time.Time) {
			if now.Before(next) {
				return
			}
			next = now.Add(every)
			line := r.line(gctx, t, now)
			lines = append(lines, line)
			if err := journal.WriteLine(f, line); err != nil {
				r.broken("a line was not written: %v", err)
			}
			r.log.Info("soak", "after_s", int(line.Seconds), "arrivals", line.Arrivals, "missing", line.Missing,
				"p99_ms", line.Late.P99, "max_ms", line.Late.Max, "memory_mib", memory(line.Members).String())
		})
	})
	if err := g.Wait(); err != nil {
		return err
	}
	r.tally = t
	r.judge(lines)
	r.report.Phases = []Phase{phase("idle", begin, start), phase("runs", start, r.mark())}
	return nil
}

// importParts imports the parts of the load, each before it is due.
func (r soakCourse) importParts(ctx context.Context, t *tally, t0 time.Time, parts int) error {
	n := int(float64(r.cfg.Rate) * soakPart.Seconds())
	for i := range parts {
		from := t0.Add(time.Duration(i) * soakPart)
		if err := wait.Until(ctx, from.Add(-soakPart)); err != nil {
			return err
		}
		spec := r.jobs(fmt.Sprintf("soak-%d", i+1), n, latest(from, time.Now()), soakPart)
		spec.Seed += uint64(i) // #nosec G115 -- small
		if err := writeJobs(r.askedFile(spec.Source), spec); err != nil {
			return err
		}
		due, err := r.dues(spec.Source)
		if err != nil {
			return err
		}
		t.ask(spec.Source, due)
		if _, err := r.importFile(ctx, spec); err != nil {
			return err
		}
		// Hours of files would fill the disk.
		if err := errors.Join(os.Remove(r.askedFile(spec.Source)), os.Remove(r.acksFile(spec.Source))); err != nil {
			return err
		}
	}
	return nil
}

// soakFaults are the faults of a soak, from second 0. They leave the first member of each kind
// alone, whose resources must stay flat.
func soakFaults(m cluster.Spec) []chain {
	var all []chain
	if m.Nodes > 1 {
		last := numbered("carillon", m.Nodes)
		all = append(all, away(ActKill, last, 0, 4), away(ActFreeze, last, 0, 12), away(ActStop, last, 0, 1))
	}
	if m.Cassandra > 1 {
		last := numbered("cassandra", m.Cassandra)
		all = append(all, away(ActKill, last, 0, 10), away(ActFreeze, last, 0, 15))
	}
	if m.NATS > 1 {
		last := numbered("nats", m.NATS)
		all = append(all, away(ActKill, last, 0, 4), away(ActFreeze, last, 0, 10), away(ActStop, last, 0, 2))
	}
	return all
}

// breakOften breaks something about each soakFault, one at a time, and lets it be calm at the end.
func (r soakCourse) breakOften(ctx context.Context, t0 time.Time) error {
	faults := soakFaults(r.cfg.Cluster)
	if len(faults) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 3)) // #nosec G404 -- a repeatable choice, no secret
	end := t0.Add(r.cfg.Span - soakCalm)
	for at := t0.Add(soakFault / 2); at.Before(end); {
		if err := r.take(ctx, at, faults[rng.IntN(len(faults))]); err != nil {
			return err
		}
		at = latest(at, time.Now()).Add(soakFault/2 + time.Duration(rng.Int64N(int64(soakFault))))
	}
	return nil
}

func (r soakCourse) line(ctx context.Context, t *tally, now time.Time) SoakLine {
	c := t.take()
	return SoakLine{
		At: now.UTC(), Seconds: now.Sub(r.report.FirstDue).Seconds(), Arrivals: c.arrivals, Duplicates: c.duplicates, Early: c.early,
		Missing: t.missing(now.Add(-r.cfg.Late.Max)), Late: c.lateness(), Queued: r.queued(ctx), Members: r.resources(ctx),
	}
}

// A series is one figure of one member, all along.
type series struct {
	member, figure string
	value          func(Resources) float64
	// room is how much it may grow over the observation, beside growthMost of its mean: pools and
	// caches are not full at once.
	room float64
}

// growthMost is by how much of its mean the floor of a figure may grow over the time that is looked
// at.
const growthMost = 0.25

// flatSeries are the figures that must stay flat, of members without faults. Cassandra's heap grows
// to its settings in any case, so only its files and threads count.
func flatSeries(m cluster.Spec) []series {
	all := []series{
		{"carillon-1", "resident memory, MiB", func(u Resources) float64 { return u.MiB }, 96},
		{"carillon-1", "goroutines", func(u Resources) float64 { return float64(u.Goroutines) }, 150},
		{"carillon-1", "open files", func(u Resources) float64 { return float64(u.Files) }, 64},
		{"cassandra-1", "open files", func(u Resources) float64 { return float64(u.Files) }, 200},
		{"cassandra-1", "threads", func(u Resources) float64 { return float64(u.Threads) }, 60},
		{"nats-1", "resident memory, MiB", func(u Resources) float64 { return u.MiB }, 64},
		{"nats-1", "open files", func(u Resources) float64 { return float64(u.Files) }, 32},
	}
	return slices.DeleteFunc(all, func(s series) bool { return !slices.Contains(memberNamesOf(m), s.member) })
}

// growth is by how much the straight line through the points rises over their time, and their mean.
func growth(seconds, values []float64) (rise, mean float64) {
	n := float64(len(values))
	if n < 2 {
		return 0, 0
	}
	var sx, sy, sxx, sxy float64
	for i, x := range seconds {
		sx, sy, sxx, sxy = sx+x, sy+values[i], sxx+x*x, sxy+x*values[i]
	}
	slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return slope * (seconds[len(seconds)-1] - seconds[0]), sy / n
}

// floorParts is into how many parts the lines of a soak are cut.
const floorParts = 10

// floor returns the least value of each part of the points, and where it is. A leak lifts it. What
// comes and goes does not: after a fault there are a thousand connections to the receiver for a
// minute.
func floor(seconds, values []float64) (at, least []float64) {
	n := len(values)
	for part := range min(floorParts, n) {
		i := part * n / min(floorParts, n)
		for k := i + 1; k < (part+1)*n/min(floorParts, n); k++ {
			if values[k] < values[i] {
				i = k
			}
		}
		at, least = append(at, seconds[i]), append(least, values[i])
	}
	return at, least
}

// flatness returns the figures of lines and those whose floor grew. Too few lines are no evidence.
func flatness(lines []SoakLine, all []series, span time.Duration) (figures []Figure, grew []string) {
	var warm []SoakLine
	for _, l := range lines {
		if l.Seconds >= soakWarm*span.Seconds() && l.Seconds <= span.Seconds() {
			warm = append(warm, l)
		}
	}
	if len(warm) < leastLines {
		return nil, []string{fmt.Sprintf("%d lines after the warm-up say nothing of flatness, want at least %d", len(warm), leastLines)}
	}
	for _, s := range all {
		var at, values []float64
		for _, l := range warm {
			if u, ok := l.Members[s.member]; ok && s.value(u) > 0 {
				at, values = append(at, l.Seconds), append(values, s.value(u))
			}
		}
		if len(values) < leastLines {
			grew = append(grew, fmt.Sprintf("%s of %s: %d values, want at least %d", s.figure, s.member, len(values), leastLines))
			continue
		}
		most := slices.Max(values)
		at, values = floor(at, values)
		rise, mean := growth(at, values)
		figures = append(figures, Figure{
			s.member + ", " + s.figure, fmt.Sprintf("floor %.0f, most %.0f, rise of the floor %+.1f in %.0f s", mean, most, rise, at[len(at)-1]-at[0]),
		})
		if rise > s.room+growthMost*mean {
			grew = append(grew, fmt.Sprintf("the floor of %s of %s rose by %.0f, of a mean of %.0f", s.figure, s.member, rise, mean))
		}
	}
	return figures, grew
}

// judge judges the lines of a soak.
func (r soakCourse) judge(lines []SoakLine) {
	figures, grew := flatness(lines, flatSeries(r.cfg.Cluster), r.cfg.Span)
	r.record(func(rep *Report) { rep.Figures = append(rep.Figures, figures...) })
	for _, text := range grew {
		r.broken("not flat: %s", text)
	}
	if len(lines) == 0 {
		return
	}
	first, last := lines[0], lines[len(lines)-1]
	var texts []string
	for _, member := range slices.Sorted(maps.Keys(last.Members)) {
		if a, b := first.Members[member].DiskMiB, last.Members[member].DiskMiB; b > 0 {
			texts = append(texts, fmt.Sprintf("%s %.0f to %.0f", member, a, b))
		}
	}
	r.figure("data on disk, MiB (rows are kept for their retention)", "%s", strings.Join(texts, ", "))
	r.figure("lines of soak.ndjson", "%d", len(lines))
}
