package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// makers is how many recurring jobs are created at the same time.
	makers = 32
	// probes are created first, to learn the rate of creation. They are due after the measurement.
	probes    = 500
	probesDue = 24 * time.Hour
	// Creations are expected to take makeFactor times as long as at the rate of the probes.
	makeFactor = 1.5
	// tailRuns is how often each job runs after the span that is measured. The end of a job is
	// written when its last run is planned, and must not fall into the span.
	tailRuns = 2
)

// systemCPU is the CPU of a run in µs, without sink and load generator.
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

// recurring describes the jobs of a batch, without their first instants and their address.
func (b *bench) recurring(w batch) recurring {
	return recurring{
		n: int(float64(w.rate) * b.cfg.Every.Seconds()), every: b.cfg.Every, runs: int(w.span/b.cfg.Every) + tailRuns, bytes: b.cfg.Payload,
	}
}

// probe creates some jobs like those of w and returns how many a second that were.
func (b *bench) probe(ctx context.Context, sys system, w batch) (perS float64, err error) {
	j := b.recurring(w)
	j.n, j.from, j.url = min(probes, j.n), time.Now().Add(probesDue).Truncate(time.Second).UTC(), nowhere
	l, err := b.make(ctx, sys, &j)
	if err != nil {
		return 0, err
	}
	return l.PerS, nil
}

// make creates all of j one by one, as a new source, and notes how fast. Each answer must name the
// first due instant.
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
	stop := b.progress(ctx, "creation", j.n, &made)
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

// makeOne creates a job. It sends again after a 429 or 503.
func (b *bench) makeOne(ctx context.Context, node string, j recurring, job int, resent *atomic.Int64) error {
	for range refusedTries {
		a, err := b.post(ctx, node, j.appendBody(nil, job))
		switch {
		case err != nil:
			return err
		case a.Status == http.StatusCreated:
			return rightlyDue(a.Body, j.first(job))
		case a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable:
			return fmt.Errorf("answered %d: %.300s", a.Status, a.Body)
		}
		resent.Add(1)
		if err := wait.For(ctx, refusedWait); err != nil {
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

// recurring describes jobs that run at an interval, numbered from 1. Jobs and due instants are
// computed, not kept.
type recurring struct {
	n     int
	from  time.Time     // in whole milliseconds
	every time.Duration // of whole milliseconds, at least 2 of them
	runs  int           // of each job: it ends after them
	seed  uint64

	source string // in addresses
	url    string // of the sink
	bytes  int    // of each payload; 0 = none
}

// first returns the first due instant of a job: after from by less than the interval, uniformly.
func (j recurring) first(job int) time.Time {
	ms := 1 + mix(j.seed, uint64(job))%uint64(j.every.Milliseconds()-1) // #nosec G115 -- positive
	return j.from.Add(time.Duration(ms) * time.Millisecond)             // #nosec G115 -- below the interval
}

// end is when no run is due any more.
func (j recurring) end() time.Time { return j.from.Add(time.Duration(j.runs) * j.every) }

func (j recurring) name() string { return j.source }

func (j *recurring) take(ctx context.Context, b *bench, sys system) (*Load, error) {
	return b.make(ctx, sys, j)
}

// count and dueOf count the runs of the first job first, then those of the second.
func (j recurring) count() int { return j.n * j.runs }

func (j recurring) dueOf(run int) time.Time {
	return j.first(run/j.runs + 1).Add(time.Duration(run%j.runs) * j.every)
}

// runOf finds the run of a call by the due instant that it names. A call that names another instant
// is of no run: the system has missed that run.
func (j recurring) runOf(s *check.Sighting) (int, bool) {
	job := s.Ref.Line
	if job < 1 || job > j.n {
		return 0, false
	}
	after := s.Due.Sub(j.first(job))
	if after < 0 || after%j.every != 0 || after/j.every >= time.Duration(j.runs) {
		return 0, false
	}
	return (job-1)*j.runs + int(after/j.every), true
}

// appendBody adds the body of POST /v1/jobs for a job. Without jitter it is due when its schedule
// says.
func (j recurring) appendBody(b []byte, job int) []byte {
	const instant = "2006-01-02T15:04:05.000Z"
	b = append(b, `{"http":{"url":"`...)
	b = append(b, j.url...)
	b = append(b, '/')
	b = append(b, j.source...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(job), 10)
	b = append(b, `"},"schedule":{"every":"`...)
	b = append(b, j.every.String()...)
	b = append(b, `","anchor":"`...)
	b = j.first(job).UTC().AppendFormat(b, instant)
	b = append(b, `"},"jitter":"0s","start":"`...)
	b = j.from.UTC().AppendFormat(b, instant)
	b = append(b, `","end":"`...)
	b = j.end().UTC().AppendFormat(b, instant)
	b = append(b, '"')
	b = appendPayload(b, j.bytes, job)
	return append(b, '}')
}
