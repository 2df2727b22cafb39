package dispatcher

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/dispatcher/ratelimit"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

const (
	// ratesEvery is how often the rates of tasks are read.
	ratesEvery = 5 * time.Second
	// reservers bounds the tasks of which blocks are reserved at once.
	reservers = 16
)

// errHalted: this node may not act now.
var errHalted = errors.New("this node was stopped, or its clock is off")

// reserveStarts reserves blocks of starts for the entries that wait, until ctx ends.
func (d *Dispatcher) reserveStarts(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(reservers)
	defer func() { _ = group.Wait() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.rateLimiter.Wanting():
		}
		for _, lim := range d.rateLimiter.TakeWanting() {
			group.Go(func() error {
				d.reserveFor(ctx, lim)
				return nil
			})
		}
	}
}

// reserveFor reserves blocks of a task's starts until nobody waits for one.
func (d *Dispatcher) reserveFor(ctx context.Context, lim *ratelimit.Limit) {
	for {
		n, ok := d.rateLimiter.Want(lim, d.now())
		if !ok {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		block, err := d.reserveBlock(bounded, lim, n)
		cancel()
		if err == nil {
			d.rateLimiter.Deal(lim, block, d.now())
			continue
		}
		d.count(ctx, "reserve")
		if ctx.Err() == nil {
			d.logEvery["reserve"].Do(func() {
				d.log.Warn("no starts could be reserved under the rate of a task: its runs wait", "tenant", lim.Task.Tenant, "task", lim.Task.Name, "err", err)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPublish):
		}
	}
}

// reserveBlock reserves n starts, or as many of them as lie within reach, in the register of the
// rate. If we crash after it they are lost.
func (d *Dispatcher) reserveBlock(ctx context.Context, lim *ratelimit.Limit, n int) (schema.Reservations, error) {
	var block schema.Reservations
	stands, err := lease.Update(ctx, d.store, lim.Known().Key, lim.Known(), func(was schema.Lease, _ bool) (is schema.Lease, expires time.Time, err error) {
		lim.Saw(was)
		if d.halt.Halted() {
			return schema.Lease{}, time.Time{}, errHalted
		}
		if is, block = lim.Reserve(was, n, d.now(), d.dispatchID()); block.Count == 0 {
			return schema.Lease{}, time.Time{}, lease.ErrUnchanged
		}
		d.metrics.rateLeases.Inc()
		return is, is.ReservationsExpire(), nil
	})
	if err != nil {
		return schema.Reservations{}, err
	}
	lim.Saw(stands)
	d.metrics.reservations.Add(float64(block.Count))
	return block, nil
}

// readRates reads which tasks have a rate.
func (d *Dispatcher) readRates(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	select {
	case d.readingRates <- struct{}{}: // of two reads the later one counts
		defer func() { <-d.readingRates }()
	case <-bounded.Done():
		return context.Cause(bounded)
	}
	rates, err := d.rates.Rates(bounded)
	if err != nil {
		d.count(ctx, "rates")
		if ctx.Err() == nil {
			d.logEvery["rates"].Do(func() { d.log.Warn("rates of tasks could not be read: those known before are kept", "err", err) })
		}
		return err
	}
	d.rateLimiter.SetRates(rates)
	return nil
}

// TaskChanged reads the rates of tasks: they hold from its return on. A dispatcher that does not
// run yet reads them before it dispatches.
func (d *Dispatcher) TaskChanged(ctx context.Context) error {
	if d.rates == nil {
		return nil
	}
	return d.readRates(ctx)
}

// insistRates reads the rates until it has them. Nothing is dispatched before: a node that starts
// would keep to no rate for a while. False: ctx has ended.
func (d *Dispatcher) insistRates(ctx context.Context) bool {
	for d.rates != nil && d.readRates(ctx) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryPublish):
		}
	}
	return ctx.Err() == nil
}

// watchRates reads the rates again and again.
func (d *Dispatcher) watchRates(ctx context.Context) {
	if d.rates == nil {
		return
	}
	tick := time.NewTicker(ratesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.insistRates(ctx) // a new rate is not kept before it is known
		}
	}
}
