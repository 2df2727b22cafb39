package recurring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// DefaultDeadline is when a join is stuck that states no deadline.
const DefaultDeadline = 7 * 24 * time.Hour

// OneOffUpstreams is the error of making a job that can have many runs where it runs after one-off
// jobs: it is a one-off job itself. After is resolved.
type OneOffUpstreams struct{ After schema.After }

// Error implements error.
func (e *OneOffUpstreams) Error() string { return "a job that runs after one-off jobs has one run" }

// errNote: that the tenant has jobs that run after others must be noted before.
var errNote = errors.New("dependents of the tenant are to be noted")

// resolveAfter finds the jobs that a job runs after. self is the job; zero: it is being made. The
// error is bucketer.Faults where the request is at fault, and OneOffUpstreams where the jobs are one-off.
func (j *Reader) resolveAfter(ctx context.Context, self schema.JobID, spec *schema.JobSpec) error {
	if spec.After == nil {
		return nil
	}
	w := upstreamWalk{Reader: j, self: self, spec: spec, roots: make(map[schema.JobID]string)}
	after := *spec.After
	after.Jobs = append([]schema.Upstream(nil), after.Jobs...)
	if after.Deadline == 0 {
		after.Deadline = schema.Duration(DefaultDeadline)
	}
	seen := make(map[schema.JobID]int)
	oneOff := 0
	for i := range after.Jobs {
		u := &after.Jobs[i]
		job, err := w.find(ctx, u.Name)
		switch {
		case err != nil:
			return err
		case u.Name == spec.Name && w.id.IsZero():
			w.faultAt(i, "is the job itself")
			continue
		case w.id.IsZero():
			w.faultAt(i, "names no job of the tenant")
			continue
		}
		u.Job = w.id
		if k, twice := seen[u.Job]; twice {
			w.faultAt(i, fmt.Sprintf("is the same job as jobs[%d]", k))
			continue
		}
		seen[u.Job] = i
		if job == nil {
			oneOff++
			continue
		}
		if job.Current.State.Ended() {
			w.faultAt(i, "has ended: it runs no more")
			continue
		}
		if err := w.walk(ctx, i, job); err != nil {
			return err
		}
	}
	if oneOff > 0 && oneOff < len(seen) {
		w.fault("body.after.jobs", "must be either all one-off jobs or all jobs that can have many runs")
	}
	if w.differ {
		var begin []string
		for i := range after.Jobs {
			if root, ok := w.roots[after.Jobs[i].Job]; ok {
				begin = append(begin, fmt.Sprintf("%s begins with %s", after.Jobs[i].Name, root))
			}
		}
		w.fault("body.after.jobs", "must all begin with the runs of one job, so that it is known which of their runs belong together: "+strings.Join(begin, ", "))
	}
	switch {
	case len(w.faults) > 0:
		return w.faults
	case oneOff > 0:
		return &OneOffUpstreams{After: after}
	}
	spec.After = &after
	return nil
}

// upstreamWalk goes from the jobs that a job runs after to those that they run after.
type upstreamWalk struct {
	*Reader
	self   schema.JobID
	spec   *schema.JobSpec
	id     schema.JobID            // of the job that was found last
	roots  map[schema.JobID]string // with which job the chain of each upstream begins
	differ bool                    // not all begin with the same
	root   schema.JobID
	faults bucketer.Faults
}

func (w *upstreamWalk) fault(at, what string) {
	w.faults = append(w.faults, bucketer.Fault{Location: at, Message: what})
}

func (w *upstreamWalk) faultAt(i int, what string) {
	w.faults = append(w.faults, bucketer.Fault{Location: fmt.Sprintf("body.after.jobs[%d]", i), Message: what, Value: w.spec.After.Jobs[i].Name})
}

// find finds a job by name or id, and sets w.id: zero if there is none. A one-off job is nil.
func (w *upstreamWalk) find(ctx context.Context, name string) (*schema.Job, error) {
	w.id = schema.JobID{}
	if name == w.spec.Name && w.self.IsZero() {
		return nil, nil // it is being made
	}
	id, err := schema.ParseJobID(name)
	if err != nil {
		job, err := w.JobByName(ctx, w.spec.Tenant, name)
		return w.found(&job, err)
	}
	run, oneOff := id.OneOff()
	if !oneOff {
		job, err := w.JobByID(ctx, w.spec.Tenant, id)
		return w.found(&job, err)
	}
	switch r, err := w.runs.Run(ctx, w.spec.Tenant, run); {
	case errors.Is(err, schema.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case r.Entry.Spec.Job.IsZero() && r.Entry.Spec.Step == nil:
		w.id = id
	}
	return nil, nil
}

func (w *upstreamWalk) found(job *schema.Job, err error) (*schema.Job, error) {
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case job.Current.Fault != nil:
		return nil, job.Current.Fault
	}
	w.id = job.ID
	return job, nil
}

// walk goes up from upstream i, and notes with which job its chain begins. A chain that leads back to
// the job itself, or is too long, is a fault.
func (w *upstreamWalk) walk(ctx context.Context, i int, from *schema.Job) error {
	type step struct {
		job  *schema.Job
		path []string // from the upstream to it
	}
	name := func(job *schema.Job) string {
		if job.Current.Spec.Name != "" {
			return job.Current.Spec.Name
		}
		return job.ID.String()
	}
	todo := []step{{from, []string{name(from)}}}
	been := map[schema.JobID]bool{from.ID: true}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch after := at.job.Current.Spec.After; {
		case at.job.ID == w.self:
			path := append([]string{name(at.job)}, at.path...)
			w.faultAt(i, "makes a cycle: "+strings.Join(path, " runs after "))
			return nil
		case len(at.path) >= schema.MaxChain:
			w.faultAt(i, fmt.Sprintf("follows on a chain of %d jobs or more", schema.MaxChain))
			return nil
		case after == nil:
			w.begins(from.ID, at.job.ID, name(at.job))
		default:
			for _, u := range after.Jobs {
				if been[u.Job] {
					continue
				}
				been[u.Job] = true
				job, err := w.JobByID(ctx, w.spec.Tenant, u.Job)
				switch {
				case errors.Is(err, schema.ErrNotFound): // it has ended and left
					continue
				case err != nil:
					return err
				case job.Current.Fault != nil:
					return job.Current.Fault
				}
				todo = append(todo, step{&job, append(at.path[:len(at.path):len(at.path)], name(&job))})
			}
		}
	}
	return nil
}

// begins notes with which job the chain of an upstream begins.
func (w *upstreamWalk) begins(upstream, root schema.JobID, name string) {
	w.differ = w.differ || len(w.roots) > 0 && w.root != root
	w.root, w.roots[upstream] = root, name
}

// RootJob returns the job with which the chain begins that a job follows on: itself, if it follows on
// none.
func (j *Reader) RootJob(ctx context.Context, job *schema.Job) (schema.JobID, error) {
	for range schema.MaxChain {
		after := job.Current.Spec.After
		if after == nil || len(after.Jobs) == 0 {
			break
		}
		up, err := j.JobByID(ctx, job.Current.Spec.Tenant, after.Jobs[0].Job)
		if err != nil {
			return schema.JobID{}, err
		}
		job = &up
	}
	return job.ID, nil
}
