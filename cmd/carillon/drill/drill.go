// Package drill moves a home to another region and back, as an operator practises it every quarter,
// and measures how long each step takes.
//
//	drill.go    the course: checks, plan, there, back
//	checks.go   whether all is ready
//	probe.go    whether a region serves a home: a job that is started there
//	report.go   what came of it, for a person and as JSON
//
// Nothing of it decides who serves a home: it does what carillon region move and failover do. If it
// is interrupted it reads who serves the home, and says how to go on.
package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// Drill says what is practised.
type Drill struct {
	Changer  homes.Changer
	Home, To string
	By       string
	Reason   string
	// Failover: the operator stops the region that serves the home, and it is failed over. Else it
	// is moved.
	Failover  bool
	AcceptLag bool
	Drain     time.Duration

	APIs       map[string]API                  // of regions, by their names
	Everywhere func(ctx context.Context) error // whether every data centre answers, the witness too; nil: it is not asked

	Within time.Duration // after the epoch a job must be started so soon
	Wait   time.Duration // of a fail-over: how long it waits for the region to stop, and to return
	Config string        // how the commands name the configuration, to go on

	Say func(format string, args ...any) // to a person
}

// more is how much more than a fail-over took is compared before the home is moved back.
const more = 10 * time.Minute

// stateTimeout bounds how long it is asked, at the end, who serves the home.
const stateTimeout = 10 * time.Second

// Announce says what will be done, before anything is.
func (d *Drill) Announce(from string) {
	d.Say("home %s, which region %s serves, is taken to region %s and back:", d.Home, from, d.To)
	if d.Failover {
		d.Say("  1. checks, which change nothing")
		d.Say("  2. you stop region %s: nothing of home %s is taken in or started from then on", from, d.Home)
		d.Say("  3. home %s fails over to region %s; a job must start there within %v", d.Home, d.To, d.Within)
		d.Say("  4. you start region %s again; the home is moved back, which takes nothing in for some 10 s", from)
		return
	}
	d.Say("  1. checks and a plan, which change nothing")
	d.Say("  2. it is moved to region %s: nothing of it is taken in for some 10 s; a job must start there within %v", d.To, d.Within)
	d.Say("  3. it is moved back, which costs the same")
}

// Serving returns the region that serves the home.
func (d *Drill) Serving(ctx context.Context) (schema.Epoch, error) {
	newest, err := d.Changer.Store.Epochs(ctx, []string{d.Home})
	if err != nil {
		return schema.Epoch{}, err
	}
	return newest[0], nil
}

// Run practises it. The report is whole also if it fails, or ctx ends; then the report says how
// things stand, and how to go on.
func (d *Drill) Run(ctx context.Context, was schema.Epoch) Report {
	r := Report{Home: d.Home, From: was.Region, To: d.To, Failover: d.Failover, BeganAt: time.Now().UTC()}
	err := d.course(ctx, was.Region, &r)
	if err != nil {
		r.Fault = err.Error()
		if ctx.Err() != nil {
			r.Fault = "it was interrupted: " + r.Fault
		}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	r.State, r.Next = d.state(bounded, was.Region)
	r.OK = err == nil && r.Next == ""
	r.EndedAt = time.Now().UTC()
	return r
}

// course is the drill, step by step.
func (d *Drill) course(ctx context.Context, from string, r *Report) error {
	r.Checks = d.check(ctx, from)
	for _, c := range r.Checks {
		d.Say("%s", c)
	}
	if n := failed(r.Checks); n > 0 {
		return fmt.Errorf("%d checks failed: nothing was changed", n)
	}
	lost := time.Duration(0)
	if d.Failover {
		d.Say("stop region %s now: its nodes, or its links; waiting until it gives no sign of life, at most %v", from, d.Wait)
		began := time.Now()
		if err := r.timed("region "+from+" fell silent", func() error { return d.await(ctx, from, false) }); err != nil {
			return err
		}
		if err := d.change(ctx, r, schema.HomeChange{Home: d.Home, To: d.To, Forced: true, AcceptLag: d.AcceptLag}); err != nil {
			return err
		}
		if err := d.serves(ctx, r, d.To); err != nil {
			return err
		}
		d.Say("start region %s again; waiting for signs of life, at most %v", from, d.Wait)
		if err := r.timed("region "+from+" returned", func() error { return d.await(ctx, from, true) }); err != nil {
			return err
		}
		lost = time.Since(began) + more
	} else {
		if err := d.change(ctx, r, d.move(d.To, 0)); err != nil {
			return err
		}
		if err := d.serves(ctx, r, d.To); err != nil {
			return err
		}
	}
	if err := d.change(ctx, r, d.move(from, lost)); err != nil {
		return err
	}
	return d.serves(ctx, r, from)
}

// move is the move of the home to a region. Rows are compared over so long.
func (d *Drill) move(to string, since time.Duration) schema.HomeChange {
	return schema.HomeChange{Home: d.Home, To: to, Drain: d.Drain, Sync: true, Since: since, Until: 15 * time.Minute}
}

// change makes a change, and notes what it cost.
func (d *Drill) change(ctx context.Context, r *Report, c schema.HomeChange) error {
	c.By, c.Reason = d.By, d.Reason
	changer := d.Changer
	changer.Say = d.Say
	verb := "moved"
	if c.Forced {
		verb = "failed over"
	} else { // a home that is lost waits for no plan
		plan, err := changer.Plan(ctx, c)
		if err != nil {
			return err
		}
		r.Plans = append(r.Plans, Plan{To: c.To, HomePlan: httpapi.HomePlanOf(&plan)})
	}
	return r.timed(fmt.Sprintf("%s to region %s", verb, c.To), func() error {
		change, err := changer.Begin(ctx, c)
		if err != nil {
			return err
		}
		if c.Forced {
			r.Plans = append(r.Plans, Plan{To: c.To, HomePlan: httpapi.HomePlanOf(&change.Plan)})
		}
		_, err = change.Do(ctx)
		return err
	})
}

// await waits until a region gives signs of life, or none.
func (d *Drill) await(ctx context.Context, region string, alive bool) error {
	bounded, cancel := context.WithTimeout(ctx, d.Wait)
	defer cancel()
	for {
		seen, err := homes.Alive(bounded, d.Changer.Store)
		switch {
		case err == nil && seen[region] == alive:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case bounded.Err() != nil && alive:
			return fmt.Errorf("region %s gave no sign of life within %v", region, d.Wait)
		case bounded.Err() != nil:
			return fmt.Errorf("region %s gives signs of life still, after %v", region, d.Wait)
		case err != nil:
			d.Say("signs of life could not be read, it is tried again: %v", err)
			if err := pause(bounded, schema.HomeLeaseRead); err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
}

// state says who serves the home in the end, and what is to be done to have all as it was; "":
// nothing.
func (d *Drill) state(ctx context.Context, from string) (state, next string) {
	is, err := d.Serving(ctx)
	if err != nil {
		return fmt.Sprintf("who serves home %s could not be read: %v", d.Home, err), "carillon region list " + d.config()
	}
	state = fmt.Sprintf("region %s serves home %s (epoch %d)", is.Region, d.Home, is.Number)
	if is.Region == from {
		return state, ""
	}
	since := ""
	if d.Failover {
		since = " --since 2h"
	}
	return state, fmt.Sprintf("carillon region move %s --to %s%s --reason '%s' %s", d.Home, from, since, d.Reason, d.config())
}

func (d *Drill) config() string { return "--config " + d.Config }

// pause waits, unless ctx ends.
func pause(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errNotServed: a region refuses what lies at the home, as yet.
var errNotServed = errors.New("the home is not served there")
