package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	// recurringSource names the recurring jobs.
	recurringSource = "recurring"
	// settleFor lies between the end of the observation and the first cancel. A run of the
	// observation that is late must not be dropped by the cancel.
	settleFor = 5 * time.Second
	// mostJitter is the widest jitter of a job that states none.
	mostJitter = 10 * time.Second
	// killAfter and backAfter are the parts of Recurring's span before the kill and the start of a
	// node.
	killAfter, backAfter = 1.0 / 3, 1.0 / 2
	// pauseFor is how long a job stays paused at least. Changes come in the part of the span from
	// changesBegin to changesUntil.
	pauseFor     = 6 * time.Second
	changesBegin = 0.1
	// stopAfter is how much of the span comes before the stop of all nodes.
	stopAfter = 0.25
)

// recurringScenarios are those with recurring jobs.
var recurringScenarios = []Scenario{Recurring, Pause, Stopped}

// Recurs reports whether the scenario is of recurring jobs.
func (s Scenario) Recurs() bool { return slices.Contains(recurringScenarios, s) }

// A recurringCourse is the course of scenarios with recurring jobs.
type recurringCourse struct{ *run }

// A RecurringResult is the part of the report about recurring jobs.
type RecurringResult struct {
	EverySeconds float64 `json:"every_s"`
	// Start and End are those of the jobs; zero: they state none.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Creating and Ending are the rates of creation and cancellation. Jobs with an end are not
	// cancelled.
	Creating AskRate `json:"creating"`
	Ending   AskRate `json:"ending"`
	// LateSeconds is by how much the last creation came after Start; such jobs have fewer targets.
	LateSeconds float64 `json:"late_s,omitempty"`
	// Stops are the spans in which no node ran.
	Stops []check.Stop          `json:"stops,omitempty"`
	Check check.RecurringReport `json:"check"`
}

// An AskRate says how fast requests were answered.
type AskRate struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
}

// PerSecond returns the requests a second.
func (r AskRate) PerSecond() float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Seconds
}

func (r *run) eventsFile() string { return filepath.Join(r.cfg.Dir, "events.ndjson") }

// play is a run with recurring jobs, from the idle cluster to the last arrival.
func (r recurringCourse) play(ctx context.Context) (err error) {
	f, err := createNew(r.eventsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := &asker{urls: r.client.URLs, http: r.http, out: f}
	r.report.Recurring = &RecurringResult{EverySeconds: r.cfg.Every.Seconds()}

	begin, start, err := r.measureIdle(ctx)
	if err != nil {
		return err
	}
	spec := workload.Recurring{
		N: r.cfg.Jobs, Every: r.cfg.Every, From: start.at, Misfires: misfires(r.cfg), Seed: r.cfg.Seed, Source: recurringSource, Target: r.sink.URL,
	}
	play := r.playCancelled
	if r.cfg.Scenario == Recurring {
		play = r.playBounded
	}
	phases, err := play(ctx, a, spec, start)
	if err != nil {
		return err
	}
	r.report.Phases = append([]Phase{phase("idle", begin, start)}, phases...)
	return nil
}

// playBounded creates jobs that state a start and an end. None runs before all should exist, and
// none has to be cancelled.
func (r recurringCourse) playBounded(ctx context.Context, a *asker, spec workload.Recurring, start mark) ([]Phase, error) {
	cfg, res := r.cfg, r.report.Recurring
	t0 := start.at.Add(cfg.Create).UTC().Truncate(time.Millisecond)
	spec.Start, spec.End = t0, t0.Add(cfg.Span)
	res.Start, res.End = spec.Start, spec.End
	r.report.FirstDue = t0
	r.keepDue(spec.End.Add(mostJitter))

	// A late creation overlaps with runs and the kill, but must leave time for a run.
	cctx, cancel := context.WithDeadlineCause(ctx, spec.End.Add(-cfg.Every), fmt.Errorf("creation took longer than %s and the span: state how long it takes", cfg.Create))
	defer cancel()
	var created, ready mark
	g, gctx := errgroup.WithContext(cctx)
	g.Go(func() error {
		if _, err := r.create(gctx, a, spec.Source, spec.N, spec.Body, &res.Creating); err != nil {
			return err
		}
		created = r.mark()
		if late := created.at.Sub(t0); late > 0 {
			res.LateSeconds = late.Seconds()
			r.log.Warn("creation took longer than planned: the last jobs have fewer runs", "planned", cfg.Create, "late", late)
		}
		return nil
	})
	g.Go(func() error {
		if err := wait.Until(gctx, t0); err != nil {
			return err
		}
		ready = r.mark()
		return r.take(gctx, t0, killOnce(cfg.Span))
	})
	if err := g.Wait(); err != nil {
		if ctx.Err() == nil && cctx.Err() != nil {
			err = context.Cause(cctx)
		}
		return nil, err
	}
	if err := wait.Until(ctx, spec.End); err != nil {
		return nil, err
	}
	ran := r.mark()
	if err := r.untilQuiet(ctx); err != nil {
		return nil, err
	}
	return []Phase{phase("creation", start, created), phase("runs", ready, ran), phase("end", ran, r.mark())}, nil
}

// playCancelled creates jobs that run at once, changes or stops them as the scenario says, and
// cancels them. T0 is when all jobs exist.
func (r recurringCourse) playCancelled(ctx context.Context, a *asker, spec workload.Recurring, start mark) ([]Phase, error) {
	cfg, res := r.cfg, r.report.Recurring
	jobs, err := r.create(ctx, a, spec.Source, spec.N, spec.Body, &res.Creating)
	if err != nil {
		return nil, err
	}
	created := r.mark()
	t0 := created.at.UTC().Truncate(time.Millisecond)
	r.report.FirstDue = t0

	if cfg.Scenario == Pause {
		err = r.changeJobs(ctx, a, jobs, t0)
	} else {
		err = r.stopAll(ctx, t0, res)
	}
	if err != nil {
		return nil, err
	}
	end := latest(t0.Add(cfg.Span), time.Now().UTC())
	r.keepDue(end)
	if err := wait.Until(ctx, end.Add(settleFor)); err != nil {
		return nil, err
	}
	ran := r.mark()
	if err := r.endJobs(ctx, a, jobs, &res.Ending); err != nil {
		return nil, err
	}
	if err := r.untilQuiet(ctx); err != nil {
		return nil, err
	}
	return []Phase{phase("creation", start, created), phase("runs", created, ran), phase("end", ran, r.mark())}, nil
}

// killOnce kills a node after a part of the span, and starts it again.
func killOnce(span time.Duration) chain {
	part := func(of float64) time.Duration { return time.Duration(of * float64(span)) }
	return chain{{part(killAfter), ActKill, "carillon-1"}, {part(backAfter), ActStart, "carillon-1"}}
}

// misfires returns the policies of a scenario's jobs, which rotate.
func misfires(cfg Config) []workload.Misfire {
	if cfg.Scenario != Stopped {
		return nil
	}
	deadline := (cfg.Stop / 2).Truncate(time.Second).String()
	return []workload.Misfire{
		{Policy: "run_all"},
		{Policy: "run_all", Deadline: deadline},
		{Policy: "run_latest"},
		{Policy: "run_latest", Deadline: deadline},
		{Policy: "skip"},
		{Policy: "skip", Deadline: deadline},
	}
}

// A liveJob is a job that was created.
type liveJob struct {
	ref check.Ref
	id  string
}

// create creates n jobs of a source; bodyOf returns the body of each, from 1. An answer that shows
// another job than was asked for is an error.
func (r recurringCourse) create(ctx context.Context, a *asker, source string, n int, bodyOf func(n int) ([]byte, error), rate *AskRate) ([]liveJob, error) {
	jobs := make([]liveJob, n)
	err := r.askAll(ctx, "jobs created", n, rate, func(ctx context.Context, i int) error {
		body, err := bodyOf(i + 1)
		if err != nil {
			return err
		}
		ref := check.Ref{Source: source, Line: i + 1}
		e, err := a.ask(ctx, jobRequest{ref: ref, kind: check.JobCreated, body: body}, i)
		if err != nil || e.Acked.IsZero() {
			return err
		}
		if what, err := differs(body, &e.Job); err != nil || what != "" {
			return errors.Join(err, fmt.Errorf("create job %s: %s", ref, what))
		}
		jobs[i] = liveJob{ref, e.Job.ID}
		return nil
	})
	return slices.DeleteFunc(jobs, func(j liveJob) bool { return j.id == "" }), err
}

// endJobs cancels all jobs. Those that were cancelled before answer the same again.
func (r recurringCourse) endJobs(ctx context.Context, a *asker, jobs []liveJob, rate *AskRate) error {
	return r.askAll(ctx, "jobs cancelled", len(jobs), rate, func(ctx context.Context, i int) error {
		_, err := a.ask(ctx, jobRequest{ref: jobs[i].ref, kind: check.JobCancelled, id: jobs[i].id}, i)
		return err
	})
}

// askAll calls ask for 0 … n-1, Config.Concurrency at a time.
func (r recurringCourse) askAll(ctx context.Context, what string, n int, rate *AskRate, ask func(ctx context.Context, i int) error) error {
	began := time.Now()
	if err := api.Each(ctx, r.log, what, n, r.cfg.Concurrency, ask); err != nil {
		return err
	}
	*rate = AskRate{Requests: n, Seconds: time.Since(began).Seconds()}
	r.log.Info("asked", "what", what, "requests", n, "per_s", int(rate.PerSecond()))
	return nil
}

// stopAll kills every node after a part of the span, starts all again Config.Stop later, and waits
// for the rest of the span.
func (r recurringCourse) stopAll(ctx context.Context, t0 time.Time, res *RecurringResult) error {
	at := time.Duration(stopAfter * float64(r.cfg.Span)).Truncate(time.Millisecond)
	var kills, starts chain
	for n := 1; n <= r.cfg.Cluster.Nodes; n++ {
		node := fmt.Sprintf("carillon-%d", n)
		kills = append(kills, step{at, ActKill, node})
		starts = append(starts, step{at + r.cfg.Stop, ActStart, node})
	}
	if err := r.take(ctx, t0, kills); err != nil {
		return err
	}
	stop := check.Stop{From: time.Now().UTC()}
	if err := wait.Until(ctx, t0.Add(at+r.cfg.Stop)); err != nil {
		return err
	}
	stop.To = time.Now().UTC()
	res.Stops = append(res.Stops, stop)
	if err := r.take(ctx, t0, starts); err != nil {
		return err
	}
	return wait.Until(ctx, latest(t0.Add(r.cfg.Span+r.cfg.Stop), time.Now().Add(r.cfg.Span-at)))
}

// A jobPlan is the changes of a job, in order.
type jobPlan struct {
	job   liveJob
	steps []jobStep
}

type jobStep struct {
	at   time.Duration // after T0
	kind check.JobEventKind
	body []byte
}

// planJobs gives each job changes at random instants of the span. Of five, two are paused (one of
// these is resumed), two updated, one cancelled.
func planJobs(jobs []liveJob, every, span time.Duration, rng *rand.Rand) []jobPlan {
	plans := make([]jobPlan, len(jobs))
	from, until := time.Duration(changesBegin*float64(span)), time.Duration(changesUntil*float64(span))
	for i, job := range jobs {
		at := from + time.Duration(rng.Int64N(int64(until-from)))
		p := jobPlan{job: job}
		switch i % 5 {
		case 0:
			p.steps = []jobStep{{at: at, kind: check.JobPaused}}
		case 1:
			p.steps = []jobStep{{at: at, kind: check.JobPaused}, {at: at + pauseFor + time.Duration(rng.Int64N(int64(pauseFor))), kind: check.JobResumed}}
		case 2: // other times, and by default another jitter
			p.steps = []jobStep{{at: at, kind: check.JobUpdated, body: fmt.Appendf(nil, `{"schedule":{"every":%q,"cron":null,"timezone":null,"gap":null,"overlap_hour":null}}`, every+time.Second)}}
		case 3: // the same times, other work
			p.steps = []jobStep{{at: at, kind: check.JobUpdated, body: []byte(`{"labels":{"changed":"yes"}}`)}}
		default:
			p.steps = []jobStep{{at: at, kind: check.JobCancelled}}
		}
		plans[i] = p
	}
	return plans
}

// changeJobs makes all changes at their instants.
func (r recurringCourse) changeJobs(ctx context.Context, a *asker, jobs []liveJob, t0 time.Time) error {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 2)) // #nosec G404 -- a repeatable choice, no secret
	g, ctx := errgroup.WithContext(ctx)
	for i, p := range planJobs(jobs, r.cfg.Every, r.cfg.Span, rng) {
		g.Go(func() error {
			for _, s := range p.steps {
				if err := wait.Until(ctx, t0.Add(s.at)); err != nil {
					return err
				}
				if _, err := a.ask(ctx, jobRequest{ref: p.job.ref, kind: s.kind, id: p.job.id, body: s.body}, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
