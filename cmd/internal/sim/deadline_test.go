package sim

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// deadlines are the misfire policies that one-off jobs state in turn. The first is the default.
var deadlines = []*schema.Misfire{
	nil,
	{Policy: schema.Skip},
	{Policy: schema.RunAll, Deadline: schema.Duration(20 * time.Second)},
	{Policy: schema.RunLatest, Deadline: schema.Duration(4 * time.Minute)},
	{Policy: schema.Skip, Deadline: schema.Duration(5 * time.Second)},
}

// stateDeadline has a job state the misfire policy that its turn is, by its line.
func stateDeadline(job *bucketer.Job, ask *check.Ask) {
	m := deadlines[ask.Ref.Line%len(deadlines)]
	if m == nil {
		return
	}
	job.Misfire = m
	ask.Misfire = check.Misfire{Policy: m.Policy, Deadline: m.Deadline.Std()}
}
