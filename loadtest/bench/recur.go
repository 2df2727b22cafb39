package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// makers is how many recurring jobs are being created at the same time.
	makers = 32
	// probes is how many are created first, to see how long the others will take; they are due when nobody measures any more.
	probes    = 500
	probesDue = 24 * time.Hour
	// Creations are expected to take makeFactor times as long as the probes did.
	makeFactor = 1.5
	// tailRuns is how often each job runs after the span that is measured: the ends of the jobs, which are written when their last runs
	// are planned, must not fall into it.
	tailRuns = 2
)

// recurs is protocol R: a rate of runs of recurring jobs, beside the same rate of one-off runs on the same system, which is a new one
// for each round: the jobs stay in the store.
func (b *bench) recurs(ctx context.Context) error {
	for round := range b.cfg.Rounds {
		err := b.with(ctx, together, false, func(sys system) error {
			if err := b.warm(ctx, sys, httpTarget); err != nil {
				return err
			}
			w := b.stream("R", b.cfg.Rates[0], 0, round+1)
			w.variant = "one-off"
			once, err := b.ride(ctx, sys, w)
			if err != nil {
				return err
			}
			if err := b.keep(once); err != nil {
				return err
			}
			again, err := b.recur(ctx, sys, b.cfg.Rates[0], round+1)
			if err != nil {
				return err
			}
			again.AgainstOneOff = against(again, once)
			return b.keep(again)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// systemCPU is what the system itself uses for a run, µs: all but the sink and the load generator.
func systemCPU(r *Result) float64 {
	return r.CPU[nodeKind] + r.CPU["cassandra"] + r.CPU["nats"]
}

// against returns the CPU of a run as a multiple of that of a one-off run; 0 if that is not known.
func against(r, once *Result) float64 {
	if systemCPU(once) == 0 {
		return 0
	}
	return systemCPU(r) / systemCPU(once)
}

// recur creates recurring jobs of which so many runs fall due a second, lets them run and says how that went.
func (b *bench) recur(ctx context.Context, sys system, rate, round int) (r *Result, err error) {
	called, err := b.callee(ctx, sys, httpTarget)
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, called.end())
		}
	}()
	r = b.result(ctx, sys, "R", "recurring", httpTarget, round)
	r.Settings.Keyed = false
	r.N, r.Rate, r.Span = int(float64(rate)*b.cfg.Span.Seconds()), float64(rate), b.cfg.Span.Seconds()
	r.Jobs, r.Every = int(float64(rate)*b.cfg.Every.Seconds()), b.cfg.Every.Seconds()
	j := recurring{every: b.cfg.Every, runs: int(b.cfg.Span/b.cfg.Every) + tailRuns, url: called.url, bytes: b.cfg.Payload}

	probe := j
	probe.n, probe.from = min(probes, r.Jobs), time.Now().Add(probesDue).Truncate(time.Second).UTC()
	seen, err := b.make(ctx, sys, &probe)
	if err != nil {
		return nil, err
	}
	if err := b.quiet(ctx, sys); err != nil {
		return nil, err
	}
	held := b.memory(ctx, sys)
	takes := time.Duration(float64(r.Jobs) / seen.PerS * makeFactor * float64(time.Second))
	least := cmp.Or(b.cfg.Lead, leadLeast)
	b.cfg.Log.Info("creating recurring jobs", "jobs", r.Jobs, "about", takes.Round(time.Second))
	t0 := time.Now().Add(max(least, min(least, leadMargin)+takes)).Truncate(time.Second).UTC()
	j.n, j.from = r.Jobs, t0
	if r.Load, err = b.make(ctx, sys, &j); err != nil {
		return nil, err
	}
	if r.Load.Ended.After(t0) {
		r.Notes = append(r.Notes, fmt.Sprintf("the last job was created %.1f s after the first due instant", r.Load.Ended.Sub(t0).Seconds()))
	}
	if err := sleepUntil(ctx, t0.Add(-time.Second)); err != nil {
		return nil, err
	}
	s := newScraper(b.client)
	s.watch(sys.nodes())
	base, before, cpu := s.read(ctx), s.mark(ctx), b.cpu(sys)
	stop := s.run(ctx)
	err = b.overSpan(ctx, sys, r, s, before, cpu, called, t0)
	if err == nil {
		err = b.untilOver(ctx, s, base, called, wave{n: j.count(), span: j.end().Sub(t0)}, t0)
	}
	stop()
	if err != nil {
		return nil, err
	}
	r.Memory = grown(held, b.memory(ctx, sys))
	ended = true
	if err := called.end(); err != nil {
		return nil, err
	}
	if err := b.fromRecord(r, called, j, t0, t0.Add(b.cfg.Span)); err != nil {
		return nil, err
	}
	t, err := b.ask(ctx, sys, "", t0, j.end().Sub(t0), r.Load)
	if err != nil {
		return nil, err
	}
	t.fill(r, j.count(), true)
	return r, nil
}

// overSpan notes at the end of the span that is measured what it has cost, of each run that began by then.
func (b *bench) overSpan(ctx context.Context, sys system, r *Result, s *scraper, before values, cpu map[string]time.Duration, called callee, t0 time.Time) error {
	if err := sleepUntil(ctx, t0.Add(b.cfg.Span)); err != nil {
		return err
	}
	_, began, err := b.sinkSeen(ctx, called.url)
	if err != nil {
		return err
	}
	n := max(int(began), 1)
	r.used(cpu, b.cpu(sys), n)
	after := s.mark(ctx).less(before)
	r.Scans = scansOf(after)
	r.Allocs, r.Bytes = after[metricMallocs]/float64(n), after[metricBytes]/float64(n)
	return nil
}

// make creates all of j one by one, as a source of its own, and notes how fast. Each answer must name the first due instant that was asked for.
func (b *bench) make(ctx context.Context, sys system, j *recurring) (*Load, error) {
	b.serial++
	j.seed, j.source = uint64(b.serial), fmt.Sprintf("s%d", b.serial) // #nosec G115 -- positive
	if err := (jobs{bytes: j.bytes}).validate(); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	apis := sys.intake()
	if len(apis) == 0 {
		return nil, errors.New("create: nobody takes jobs in")
	}
	began := time.Now()
	var made, resent atomic.Int64
	stop := b.tell(ctx, "creation", j.n, &made)
	g, ctx := errgroup.WithContext(ctx)
	for maker := range makers {
		g.Go(func() error {
			for job := maker + 1; job <= j.n; job += makers {
				if err := b.makeOne(ctx, apis[job%len(apis)], *j, job, &resent); err != nil {
					return fmt.Errorf("create job %d: %w", job, err)
				}
				made.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	stop()
	if err != nil {
		return nil, err
	}
	l := &Load{Lines: j.n, Streams: makers, Resent: int(resent.Load()), Ended: time.Now()}
	l.Seconds = l.Ended.Sub(began).Seconds()
	l.PerS = float64(j.n) / l.Seconds
	b.cfg.Log.Info("created", "jobs", j.n, "jobs_per_s", int(l.PerS), "resent", l.Resent)
	return l, nil
}

// makeOne creates a job; what is refused for now is sent again.
func (b *bench) makeOne(ctx context.Context, api string, j recurring, job int, resent *atomic.Int64) error {
	for range refusedTries {
		status, text, err := b.post(ctx, api+"/v1/jobs", string(j.appendBody(nil, job)))
		switch {
		case err != nil:
			return err
		case status == http.StatusCreated:
			return rightlyDue(text, j.first(job))
		case !slices.Contains([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, status):
			return fmt.Errorf("answered %d: %.300s", status, text)
		}
		resent.Add(1)
		if err := sleepUntil(ctx, time.Now().Add(refusedWait)); err != nil {
			return err
		}
	}
	return errors.New("it is refused again and again")
}

// rightlyDue reports if the answer to a creation does not name want as the next due instant.
func rightlyDue(answer []byte, want time.Time) error {
	var job struct {
		NextRun struct {
			DueAt time.Time `json:"due_at"`
		} `json:"next_run"`
	}
	if err := json.Unmarshal(answer, &job); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if got := job.NextRun.DueAt; !got.Equal(want) {
		return fmt.Errorf("its next run is due at %s, want %s", got.Format(time.RFC3339Nano), want.Format(time.RFC3339Nano))
	}
	return nil
}
