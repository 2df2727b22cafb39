package request

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// AfterRequest says after which jobs a job runs.
type AfterRequest struct {
	Jobs     []string        `json:"jobs"`           // names or ids
	When     string          `json:"when,omitempty"` // absent: all_succeeded
	Deadline schema.Duration `json:"deadline,omitempty"`
}

// afterWhens are how the jobs must have ended after which a job runs.
var afterWhens = []string{string(workflow.AllSucceeded), string(workflow.AllDone), string(workflow.AnySucceeded), string(workflow.AnyFailed)}

// ofAfter returns what a body says for a.
func ofAfter(a *schema.After) *AfterRequest {
	if a == nil {
		return nil
	}
	r := &AfterRequest{When: a.When, Deadline: a.Deadline}
	for _, u := range a.Jobs {
		r.Jobs = append(r.Jobs, u.Name)
	}
	return r
}

// jobsBefore reads after which jobs a job runs. Which they are is found out later.
func (r *jobReader) jobsBefore(i int32) *schema.After {
	d, after := r.d, new(schema.After)
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "jobs":
			after.Jobs = r.upstreams(c)
		case "when":
			after.When = d.oneOf(c, afterWhens)
		case "deadline":
			after.Deadline = d.duration(c, time.Second, workflow.MaxDeadline)
		default:
			d.faultQuietly(c, "is not a field of after")
		}
	}
	d.require(i, after.Jobs != nil, "jobs")
	return after
}

func (r *jobReader) upstreams(i int32) []schema.Upstream {
	d, list := r.d, []schema.Upstream{}
	if !d.is(i, kindArray) {
		d.fault(i, "must be a list of names or ids of jobs")
		return list
	}
	for c := range d.allMembers(i) {
		if len(list) == schema.MaxUpstreams {
			d.faultQuietly(i, "must be at most %d jobs", schema.MaxUpstreams)
			break
		}
		list = append(list, schema.Upstream{Name: d.checked(c, upstreamFault)})
	}
	if len(list) == 0 {
		d.faultQuietly(i, "must name at least one job")
	}
	return list
}

// upstreamFault says what is wrong with the name or id of a job.
func upstreamFault(s string) string {
	if _, err := schema.ParseJobID(s); err == nil || bucketer.NameFault(s) == "" {
		return ""
	}
	return "is neither an id nor a name of a job"
}
