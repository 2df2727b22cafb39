package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// importRate is how many lines a second the smallest machine takes in. A herd must be imported
	// before it is due.
	importRate = 4000
	// At least so many jobs a second are cancelled one by one, by cancelsAtOnce requests at once. All
	// lie in one partition, whose conditional writes wait for each other. With commit log group each
	// waits for the disk several times: seen were 25 to 100 a second, and 461 with periodic.
	cancelRateGroup    = 20
	cancelRatePeriodic = 250
	cancelsAtOnce      = 32
	// One of keptOf jobs of Tombstones is not cancelled.
	keptOf = 10
	// slowScan bounds the reads of a bucket, in seconds: the bound of a bucket of its histogram.
	slowScan = 1.024
	// curveEvery is the distance of two points of a lag curve.
	curveEvery = 10 * time.Second
	// countEvery is how often the sink's record is read.
	countEvery = time.Second
	// heldMost bounds the resident memory of a Carillon node while a herd waits for its turn.
	heldMost = 2048
)

// A countedCourse is the course of scenarios that a tally judges.
type countedCourse struct{ *run }

// watchCounts counts what the sink records until ctx ends, and calls each once a second.
func (r countedCourse) watchCounts(ctx context.Context, t *tally, each func(now time.Time)) error {
	f, err := journal.Follow(r.sink.Record)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	for ctx.Err() == nil {
		if err := f.Next(t.see); err != nil {
			return err
		}
		each(time.Now())
		_ = wait.For(ctx, countEvery) // at its end what is left is read
	}
	return f.Next(t.see)
}

// untilCounted waits until all that is due has been seen, at most Config.Wait + the bound on
// lateness.
func (r countedCourse) untilCounted(ctx context.Context, t *tally) error {
	if err := wait.Until(ctx, r.lastDue); err != nil {
		return err
	}
	all, err := wait.Poll(ctx, countEvery, time.Now().Add(r.cfg.Wait+r.cfg.Late.Max), func() (bool, error) {
		return t.missing(time.Now()) == 0, nil
	})
	if err != nil || !all {
		return err
	}
	return wait.For(ctx, quietFor) // for what comes twice
}

// counted makes a verdict from the tally.
func (r judging) counted(t *tally, out io.Writer) error {
	accepted := 0
	for _, i := range r.report.Imports {
		accepted += i.Created + i.Existing
	}
	r.report.Check = t.report(accepted, r.cfg.Late, time.Now())
	return r.report.Check.WriteText(out)
}

// playHerd has all jobs due at one instant.
func (r countedCourse) playHerd(ctx context.Context) error {
	begin, start, t0, err := r.idleFor(ctx, time.Duration(r.cfg.Jobs)*time.Second/importRate)
	if err != nil {
		return err
	}
	t := newTally()
	due := make([]int64, r.cfg.Jobs)
	for i := range due {
		due[i] = t0.UnixMilli()
	}
	t.ask("herd", due)
	before := r.resources(ctx)
	if err := r.importJobs(ctx, r.jobs("herd", r.cfg.Jobs, t0, 0)); err != nil {
		return err
	}
	imported := r.mark()
	if imported.at.After(t0) {
		r.broken("the import ended %s after the instant at which all were due", imported.at.Sub(t0).Round(time.Second))
	}
	most := peaks{}
	most.add(before)
	var curve []string
	next := t0.Add(curveEvery)
	err = r.counting(ctx, t, func(now time.Time) {
		most.add(r.resources(ctx))
		if now.After(next) {
			c := t.take()
			curve = append(curve, fmt.Sprintf("%.0f s: %d", next.Sub(t0).Seconds(), c.arrivals))
			next = next.Add(curveEvery)
		}
	})
	if err != nil {
		return err
	}
	if err := r.statesSum(ctx); err != nil {
		return err
	}
	r.figure("arrivals in each 10 s, counted from the instant", "%s", strings.Join(curve, ", "))
	r.figure("most resident memory, MiB", "%s (idle: %s)", most, memory(before))
	for member, mib := range most {
		if strings.HasPrefix(member, "carillon-") && mib > heldMost {
			r.broken("%s took %.0f MiB, of %d that it may", member, mib, heldMost)
		}
	}
	r.keepPhases(begin, start, imported)
	r.tally = t
	return nil
}

// memory returns the resident memory of members.
func memory(of map[string]Resources) peaks {
	p := peaks{}
	p.add(of)
	return p
}

// counting counts until all has been seen.
func (r countedCourse) counting(ctx context.Context, t *tally, each func(now time.Time)) error {
	cctx, done := context.WithCancel(ctx)
	defer done()
	var g errgroup.Group
	g.Go(func() error { return r.watchCounts(cctx, t, each) })
	err := r.untilCounted(ctx, t)
	done()
	return errors.Join(err, g.Wait())
}

// playTombstones cancels most jobs of one minute and shard before they are due, the earliest first.
// The rest lies behind their tombstones.
func (r countedCourse) playTombstones(ctx context.Context) error {
	rate := time.Duration(cancelRateGroup)
	if r.cfg.Cluster.CommitLog == cluster.CommitLogPeriodic {
		rate = cancelRatePeriodic
	}
	lead := time.Duration(r.cfg.Jobs)*time.Second/importRate + time.Duration(r.cfg.Jobs)*time.Second/rate
	begin, start, t0, err := r.idleFor(ctx, lead)
	if err != nil {
		return err
	}
	// All within one minute, so in one bucket.
	t0 = t0.Truncate(time.Minute).Add(time.Minute)
	r.report.FirstDue = t0
	spec := r.jobs("wide", r.cfg.Jobs, t0, r.cfg.Span)
	if err := r.importJobs(ctx, spec); err != nil {
		return err
	}
	imported := r.mark()
	t := newTally()
	due, err := r.dues(spec.Source)
	if err != nil {
		return err
	}
	t.ask(spec.Source, due)
	if err := r.cancelFirst(ctx, t, spec.Source); err != nil {
		return err
	}
	if time.Now().After(t0) {
		r.broken("the cancels ended %s after the first due instant", time.Since(t0).Round(time.Second))
	}
	if err := r.counting(ctx, t, func(time.Time) {}); err != nil {
		return err
	}
	r.keepPhases(begin, start, imported)
	r.tally = t
	return r.lookAtScans(ctx)
}

// cancelFirst cancels all jobs but one of keptOf, those that are due first.
func (r countedCourse) cancelFirst(ctx context.Context, t *tally, source string) error {
	acks, err := journal.ReadFile(r.acksFile(source), journal.ReadAcks)
	if err != nil {
		return err
	}
	ids := make(map[int]string, len(acks))
	for _, a := range acks {
		if a.ID != "" {
			ids[a.Ref.Line] = a.ID
		}
	}
	due := t.sources[source].due
	lines := make([]int, len(due))
	for i := range lines {
		lines[i] = i + 1
	}
	slices.SortFunc(lines, func(a, b int) int { return int(due[a-1] - due[b-1]) })
	lines = lines[:len(lines)-len(lines)/keptOf]
	began := time.Now()
	c := &changer{urls: r.client.URLs, http: r.http}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cancelsAtOnce)
	for i, line := range lines {
		g.Go(func() error {
			change, refused, err := c.change(gctx, plannedChange{run: ids[line], kind: check.Cancel}, i)
			if err != nil {
				return err
			}
			if refused || change.Acked.IsZero() {
				return fmt.Errorf("line %d was not cancelled", line)
			}
			t.cancel(source, line)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("cancel jobs: %w", err)
	}
	took := time.Since(began)
	r.record(func(rep *Report) { rep.Changes.Cancels = len(lines) })
	r.figure("cancels", "%d in %.0f s: %.0f a second", len(lines), took.Seconds(), float64(len(lines))/took.Seconds())
	r.log.Info("cancelled", "jobs", len(lines), "took", took)
	return nil
}

// lookAtScans judges how long reads of buckets took, and counts Cassandra's warnings about
// tombstones.
func (r countedCourse) lookAtScans(ctx context.Context) error {
	for _, n := range r.cluster().Status().Carillon {
		v, err := r.metrics(ctx, n.API)
		if err != nil {
			return err
		}
		scans := v.Histogram("carillon_dispatcher_scan_seconds")
		above, err := scans.Above(slowScan)
		if err != nil {
			return fmt.Errorf("reads of buckets by %s: %w", n.Name, err)
		}
		r.figure("reads of buckets by "+n.Name+", above 1 s", "%.0f, %d", scans.Count(), above)
		if above > 0 {
			r.broken("%d of %.0f reads of buckets by %s took more than 1 s", above, scans.Count(), n.Name)
		}
	}
	warned, failed := 0, 0
	for _, n := range r.cluster().Status().Cassandra {
		text, err := os.ReadFile(filepath.Join(r.cfg.Dir, "cluster", n.Name, "log"))
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", n.Name, err)
		}
		failed += strings.Count(string(text), "query aborted") + strings.Count(string(text), "TombstoneOverwhelmingException")
		warned += strings.Count(string(text), "tombstone cells for query")
	}
	r.figure("warnings of Cassandra about tombstones, refused reads", "%d, %d", warned, failed)
	if failed > 0 {
		r.broken("Cassandra refused %d reads because of tombstones", failed)
	}
	return nil
}

// idleFor is idle, with more time before the first due instant.
func (r *run) idleFor(ctx context.Context, lead time.Duration) (begin, start mark, t0 time.Time, err error) {
	r.cfg.Lead += lead
	return r.idle(ctx)
}

// statesSum counts the states of a sample of runs, and says it as a figure. Those that have not
// succeeded break a promise.
func (r countedCourse) statesSum(ctx context.Context) error {
	counts := map[check.State]int{}
	total := 0
	for reader := range watchersAtOnce {
		for turn := range watchMost {
			id := r.watched.at(reader, turn)
			if id == "" || turn >= r.watched.of(reader) {
				break
			}
			run, found, err := r.client.Run(ctx, id)
			if err != nil {
				return err
			}
			total++
			if !found {
				counts["gone"]++
				continue
			}
			counts[run.State]++
		}
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return fmt.Errorf("states: %w", err)
	}
	r.figure("states of a sample of runs", "%s", text)
	if n := counts[check.Succeeded] + counts[check.Cancelled]; n != total {
		r.broken("%d of a sample of %d runs have not succeeded: %s", total-n, total, text)
	}
	return nil
}
