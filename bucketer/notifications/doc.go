// Package notifications tells tenants what happens to their runs: by their rules, grouped, and
// seldom enough that people read it.
//
// What happened is written by whoever records it (runs.Recorder), or pauses a job
// (recurring.Changer): an incident, one row, in the minute in which it happened. Incidents of
// records that are followed up together are written together. Tenants without rules cost a look
// into a map. Their rules are looked at before the write, so what no rule takes is not written.
// A run that the limit of its own job skips (on_limit: skip) is no incident, though it counts as
// missed: its tenant asks for that. One that was late for its misfire policy is.
// Where a rule asks for runs in a row (match.in_a_row) whoever writes an incident reads the history
// of the job, and the incident says how many have failed. The line of its own run is held before it
// counts. So of the runs of a streak the last to be counted sees them all, whatever their order.
// What a node has recorded before it died, and not written into the history, is counted when
// another one has done so: a failure is told then, and a success in between ends no streak until
// then.
//
// The incidents of a tenant are read by the node that owns the tenant's shard (Notifier): every 5 s
// those that came, and each minute again as a whole, 90 s and 10 min after its end, because some
// come late. It counts them by rule and group, and says when a group is to be told of. Each message
// to a sink is a run of its own, with the trigger "notification" and the label notification=<rule>:
// it is called, retried, guarded and seen as every HTTP call is, at low priority. Nothing follows
// from its end.
//
// # What is authoritative
//
// The incidents, and the rows of groups. What a Notifier remembers is made anew from them.
//
// # Invariants
//
//  1. An incident has an id that follows from the record, so it is counted once, whoever finds the
//     record again.
//  2. The row of a group says how many incidents of each minute it has counted (Counted), and how
//     many of these no message told (Untold). A message is decided by one conditional write of the
//     row, which also says what it tells. So the sum of what messages tell is the number of
//     incidents, whoever owns the tenant.
//  3. The runs of a message follow from the row: their ids are a hash of group, number of the
//     message and sink, at the instant of the decision. Whoever finds the row writes the same runs,
//     with the same links, as the public URL of the console is the same on every node.
//     The id of a run is the webhook-id of its call, and its idempotency key.
//  4. A tenant has at most schema.MaxNotificationGroups groups. What finds no place is counted in a
//     group * of its rule. An incident of a minute of which * has counted stays in *, so it is not
//     told twice.
//  5. A rule that is put again, and takes or groups something else, begins anew: its groups are
//     others, and what happened before is not told. A message that was decided before is sent, to
//     the sinks that the rule has now.
//  6. A row that cannot be understood stays as it is. What it counted is counted in another one,
//     from ten minutes before on.
//
// # When a message is sent
//
//	group_wait after the first incident of a group        what happened so far
//	every group_interval after a message                  what happened since; or that all is well again;
//	                                                      or nothing
//	repeat_interval after a message                       that it still stands
//
// All is well when each job of the group has succeeded since its last incident (its history says
// so). Of one-off runs none can succeed again: a group of these ends without a word at the next
// group_interval without an incident. While a mute time interval of the rule lasts nothing is sent,
// and what happened is counted on and told after it.
//
// # If we crash
//
//	between an incident and the follow-ups of its record  the next node writes the incident again
//	between the row of a group and the runs of a message  the next owner writes the runs
//	between two minutes                                   the next owner counts from the cursor on
//
// What a step of a tenant could not do, the next one does. A message is not sent if its rule is
// deleted between the decision and its runs.
//
// # Files
//
//	rules.go               the rules: put, read, remembered
//	match.go, mute.go      which incidents a rule takes, and how they are grouped; when it is mute
//	group.go               what becomes of a group, and when (pure)
//	notifier.go tenant.go  which tenants are ours; one step of a tenant
//	send.go sinks.go       the runs of a message; the bodies (also email.go, pagerduty.go)
//	links.go               where a person sees the runs that a message tells of
//	states.go              how rules stand
package notifications
