// Package planner foretells how long runs wait: it plays a load through the slots of executors,
// event by event, and tells queue depth, use and waits over time. `carillon simulate` is its
// command.
//
// # What is played
//
//   - A run becomes due at an instant: at random with a mean rate (a Poisson process), evenly, in a herd
//     (many at one instant), or as it was recorded.
//   - The cluster publishes at most Config.Starts runs a second; what is due beyond waits, oldest first.
//   - The rate of a task gives each of its runs a start time of its own, evenly spaced.
//   - A run whose task has a limit waits while as many are under way.
//   - Of the slots a tenant gets seven eighths, and no more than half for runs that take longer than a
//     second while there are other tenants (admission.Share). What is beyond waits, by priority.
//   - It takes a slot. Slots go to priorities by deficit round robin with the weights of package
//     admission, within a priority to tenants in turn, within a tenant to the run that asked first.
//   - It runs for a time drawn from its load's distribution, and gives all of it back.
//
// # What is not
//
// The milliseconds that scanning, publishing and recording take on a cluster that is not overloaded
// are left out, and so are retries, failures, circuit breakers and the shares of single targets,
// which are those of tenants again. Slots are played as one pool, though each executor has its own:
// with few slots an executor, real runs wait longer. A test holds the planner to the real slots
// (package admission); RESULTS.md has it beside real runs.
package planner
