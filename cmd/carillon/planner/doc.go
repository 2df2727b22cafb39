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
//   - An executor takes two messages a slot in hand, with room kept for each priority. What is
//     beyond waits in the order of publishing.
//   - A run in hand asks for admission (package admission; its numbers are functions that the
//     planner calls too). It begins if its task's limit and its tenant's share allow it: seven
//     eighths of the slots, and no more than half for runs that take longer than a second while
//     there are other tenants.
//   - If not, it waits in memory: as many as wait there already, few behind what is slow or has a
//     limit. The others are deferred, and come back after a time that doubles, or grows with how
//     long the limit has been reached. That, and nothing else, makes waits for a limit long.
//   - Where a run ends, one that waits is woken, by the weights of priorities. One that is not
//     woken asks again after admission.RecheckEvery and then stands last. So the order of those
//     that wait longer is about random: the mean wait is as in a queue, the longest waits are
//     longer.
//   - Each executor has a block of the slots of a limit, which it takes from the limit's lease as
//     others want them (schema.Slots). It gives back what was idle for a second or two, and is
//     without it for admission.BlockPause when it is wanted again.
//   - It takes a slot. Slots go to priorities by deficit round robin with the weights of package
//     admission, within a priority to tenants in turn, within a tenant to the run that asked first.
//   - It runs for a time drawn from its load's distribution, and gives all of it back.
//
// # What is not
//
// The milliseconds that scanning, publishing and recording take on a cluster that is not overloaded
// are left out, and so are retries, failures, circuit breakers and the shares of single targets,
// which are those of tenants again. So is that executors with waiting slots take fewer messages in
// hand (admission.Slots.Room). Which executor has room for a run is drawn. Tests hold the planner
// to the real admission of one executor and of several, and to the real slots; RESULTS.md has it
// beside real runs.
package planner
