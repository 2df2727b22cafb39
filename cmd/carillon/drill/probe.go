package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// API is what a drill asks of a region.
type API interface {
	// Stand tells how all regions and homes stand, as the region knows.
	Stand(ctx context.Context) (httpapi.RegionsStand, error)
	// Start makes a job at a home that is due now. The error is a *httpapi.Problem not-served while
	// the region does not serve the home.
	Start(ctx context.Context, home string) (schema.RunID, error)
	// Run returns a run.
	Run(ctx context.Context, id schema.RunID) (httpapi.Run, error)
}

// Remote is an API over the network.
type Remote struct {
	*httpapi.Client
	Job request.JobRequest // what is run
}

// Stand implements API.
func (r Remote) Stand(ctx context.Context) (httpapi.RegionsStand, error) { return r.RegionsStand(ctx) }

// Start implements API.
func (r Remote) Start(ctx context.Context, home string) (schema.RunID, error) {
	job := r.Job
	job.Region = schema.RegionChoice{Name: home}
	made, err := r.CreateJob(ctx, job)
	return schema.RunID(made.ID), err
}

// probeEvery is how often it is tried, and looked.
const probeEvery = 500 * time.Millisecond

// serves makes sure that a region serves the home: it takes a job in, and one of its executors
// starts it, within the time that is allowed.
func (d *Drill) serves(ctx context.Context, r *Report, region string) error {
	bounded, cancel := context.WithTimeout(ctx, d.Within)
	defer cancel()
	api := d.APIs[region]
	began := time.Now()
	var id schema.RunID
	err := r.timed("region "+region+" takes in", func() (err error) {
		id, err = d.start(bounded, api)
		return err
	})
	if err == nil {
		err = r.timed("region "+region+" started a job", func() error { return d.started(bounded, api, region, id) })
	}
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = fmt.Errorf("region %s started no job of home %s within %v of the epoch: %w", region, d.Home, d.Within, err)
	}
	if err == nil {
		d.Say("region %s serves home %s: run %s started %v after the epoch", region, d.Home, id, time.Since(began).Round(100*time.Millisecond))
	}
	return err
}

// start makes a job, once the region takes it in.
func (d *Drill) start(ctx context.Context, api API) (schema.RunID, error) {
	for {
		id, err := api.Start(ctx, d.Home)
		var p *httpapi.Problem
		switch {
		case err == nil:
			return id, nil
		case ctx.Err() != nil:
			return id, err
		case errors.As(err, &p) && p.Status != http.StatusServiceUnavailable && p.Status != http.StatusTooManyRequests:
			return id, fmt.Errorf("make a job of the drill: %w", err) // it will not get better
		}
		if wait := pause(ctx, probeEvery); wait != nil {
			return id, fmt.Errorf("%w: %w", errNotServed, err)
		}
	}
}

// started waits until an executor of the region has started a run, and that has succeeded.
func (d *Drill) started(ctx context.Context, api API, region string, id schema.RunID) error {
	for {
		run, err := api.Run(ctx, id)
		if err == nil && len(run.Attempts) > 0 {
			if by := run.Attempts[0].Executor; !strings.HasSuffix(by, "."+region) {
				return fmt.Errorf("run %s was started by %s, which is no executor of region %s", id, by, region)
			}
			if run.State == schema.StateSucceeded {
				return nil
			}
			if last := run.Attempts[len(run.Attempts)-1]; last.Outcome != "" {
				return fmt.Errorf("run %s was started in region %s, and %s: %s; it must reach what it calls (--url)", id, region, last.Outcome, last.Error)
			}
		}
		if wait := pause(ctx, probeEvery); wait != nil {
			return errors.Join(fmt.Errorf("run %s was taken in, and not started", id), err)
		}
	}
}
