package dashboards

// slotsTaken is the share of slots that are taken.
const slotsTaken = `sum(carillon_executor_slots_busy{$}) / sum(carillon_executor_slots{$})`

// backlog is what is due and waits: in the memory of dispatchers, and in the stream, of which each
// dispatcher tells the same.
const backlog = `(sum(carillon_dispatcher_due_waiting{$}) or vector(0))
  + (sum(max by (lane, priority) (carillon_dispatcher_stream_waiting{$})) or vector(0))`

// noPools is why the panels of pools may be empty.
const noPools = "no executor has labels"

func throughput() Dashboard {
	return Dashboard{
		UID: "carillon-throughput", Title: "Throughput",
		About: "How much is due, starts and ends; what waits, and for what.",
		Read: "Runs wait for *budget* (the stream is as deep as it should be), for a *slot*, or are deferred by a rate, a limit or a broken target. " +
			"If slots are full, add executors.",
		Answer: []Panel{
			word("Do executors keep up?", "By the share of slots that are taken.", slotsTaken,
				Word{nil, at(.8), "Yes", green}, Word{at(.8), at(.95), "Just", yellow}, Word{at(.95), nil, "Slots are full", red}),
			stat("Starts a second", "ops", "Runs that started for the first time, over the last minutes.", rate("carillon_executor_lateness_seconds_count{$}", "")),
			stat("Slots taken", "percentunit", "Of all slots of the executors.", slotsTaken, worseFrom(.8, .95)...),
			stat("Due and waiting", "short", "Runs that are due and have no executor yet.", backlog, worseFrom(1000, 10000)...),
			stat("Oldest wait", "s", "For how long the oldest run has been due that is not published.", `max(carillon_dispatcher_oldest_wait_seconds{$}) or vector(0)`, worseFrom(1, 60)...),
			stat("Attempts that fail", "percentunit", "Share of the attempts that ended, in the time that is shown.",
				`sum(increase(carillon_executor_attempts_total{$,outcome=~"failed|timed_out|lost"}[$__range])) / sum(increase(carillon_executor_attempts_total{$}[$__range]))`, worseFrom(.05, .25)...),
		},
		Sections: []Section{
			{"Runs", []Panel{
				lines("Due", "ops", "Entries handed to the queue for the first time: without those that are published again, or were deferred by an executor.", q(rate("carillon_dispatcher_due_total{$}", ""), "due")),
				stacked("Published by priority", "ops", "What was due and was handed to the queue.", q(rate("carillon_dispatcher_published_total{$}", "priority"), "{{priority}}")),
				stacked("Ends by outcome", "ops", "Attempts that ended.", q(rate("carillon_executor_attempts_total{$}", "outcome"), "{{outcome}}")),
				lines("Attempts by kind and outcome", "ops", "By what they called. What never started is not counted.", q(rate("carillon_executor_attempt_seconds_count{$}", "kind, outcome"), "{{kind}} {{outcome}}")),
				lines("How long attempts take, p99", "s", "By what they called: p99, and the mean. Classes end at 1, 5, 30, 120, 600 s; p99 is estimated between two of them, so it may be above the time-out.",
					q(quantile("0.99", "carillon_executor_attempt_seconds", "kind"), "{{kind}} p99"),
					q(`sum by (kind) (rate(carillon_executor_attempt_seconds_sum{$}[$__rate_interval])) / sum by (kind) (rate(carillon_executor_attempt_seconds_count{$}[$__rate_interval]))`, "{{kind}} mean")),
				stacked("Entries written by kind", "ops", "Why rows were written: runs, retries, deferrals and so on. Many retries beside few runs: something fails.", q(rate("carillon_entries_written_total{$}", "kind"), "{{kind}}")),
				lines("Attempts under way", "short", "By node.", q("sum by (instance) (carillon_executor_attempts_running{$})", "{{instance}}")),
			}},
			{"What waits", []Panel{
				stacked("Waiting by priority", "short", "In dispatchers' memory, due and without budget.", q("sum by (priority) (carillon_dispatcher_due_waiting{$})", "{{priority}}")),
				stacked("Waiting in the stream by priority", "short", "Published, and held by no executor.", q("sum by (priority) (max by (lane, priority) (carillon_dispatcher_stream_waiting{$}))", "{{priority}}")),
				lines("Oldest wait by priority", "s", "For how long the oldest run has been due that is not published.", q("max by (priority) (carillon_dispatcher_oldest_wait_seconds{$})", "{{priority}}")),
				stacked("Waiting for a slot by priority", "short", "In executors' hands, due, and without a slot.", q("sum by (priority) (carillon_executor_slot_waiting{$})", "{{priority}}")),
				lines("Slots busy", "short", "Slots that are taken, and all that there are.", q("sum(carillon_executor_slots_busy{$})", "taken"), q("sum(carillon_executor_slots{$})", "all")),
				lines("Stopped for critical runs", "ops", "Attempts of low priority that made way for critical runs, by node. They use no attempt, and start again.", q(rate("carillon_executor_preempted_total{$}", "instance"), "{{instance}}")),
				stacked("Tenants with the largest backlog", "short", "The ten of each dispatcher, and all others (*).", q("topk(10, sum by (tenant) (carillon_dispatcher_tenant_waiting{$}))", "{{tenant}}")).
					emptyIf("it names tenants only while runs of theirs wait in memory"),
			}},
			{"What holds runs back", []Panel{
				stacked("Held back by reason", "short", "Runs that are due and may not start: rate, limit (max_concurrent), breaker (broken target), shares of the slots, concurrency (limit of their job).",
					q("sum by (reason) (carillon_runs_held{$})", "{{reason}}")),
				lines("Oldest held back by reason", "s", "For how long the oldest of them has been due.", q("max by (reason) (carillon_runs_held_oldest_seconds{$})", "{{reason}}")),
				lines("Deferred by reason", "ops", "Starts that were deferred: rate, limit, broken target (breaker), slow target (crowded).",
					q(rate("carillon_executor_deferred_total{$}", "reason"), "{{reason}}"), q(rate("carillon_dispatcher_deferred_total{$}", ""), "rate, before they are published")),
				lines("Broken targets", "short", "Targets whose circuit is open, by node.", q("sum by (instance) (carillon_executor_targets_broken{$})", "{{instance}}")),
				lines("Limits", "ops", "Runs whose turn came under the limit of their job, and conditional writes for the slots of tasks.",
					q(rate("carillon_limit_turns_total{$}", ""), "turns"), q(rate("carillon_executor_task_slot_swaps_total{$}", ""), "slot writes")),
				lines("Slots of tasks", "short", "Of tasks with max_concurrent: what executors have, and what of it is in use.",
					q("sum(carillon_executor_task_slots_held{$})", "held"), q("sum(carillon_executor_task_slots_busy{$})", "in use")),
				lines("Rates", "ops", "Starts reserved under the rates of tasks, and the conditional writes that took.",
					q(rate("carillon_dispatcher_rate_reservations_total{$}", ""), "reserved"), q(rate("carillon_dispatcher_rate_leases_total{$}", ""), "writes")),
				lines("Messages without a start", "ops", "Messages from which nothing was started, by reason, and entries whose rows were read first.",
					q(rate("carillon_executor_passed_total{$}", "reason"), "{{reason}}"), q(rate("carillon_executor_looks_total{$}", ""), "looked")),
			}},
			{"Executors with labels", []Panel{
				lines("Waiting by pool", "short", "For executors with these labels: due in dispatchers' memory and without budget, and published but held by none.",
					q("sum by (pool) (carillon_dispatcher_pool_due_waiting{$})", "{{pool}}: in memory"), q("sum by (pool) (max by (pool) (carillon_dispatcher_pool_stream_waiting{$}))", "{{pool}}: in the stream")).emptyIf(noPools),
				lines("Oldest wait by pool", "s", "For how long the oldest run has been due that is not published.", q("max by (pool) (carillon_dispatcher_pool_oldest_wait_seconds{$})", "{{pool}}")).emptyIf(noPools),
				lines("Slots by pool", "short", "Slots that are taken, and all that there are, of executors with these labels.",
					q("sum by (pool) (carillon_executor_pool_slots_busy{$})", "{{pool}}: taken"), q("sum by (pool) (carillon_executor_pool_slots{$})", "{{pool}}: all")).emptyIf(noPools),
			}},
			{"Workflows and events", []Panel{
				lines("Workflow runs", "ops", "Begun, ended by outcome, and made anew from their rows.",
					q(rate("carillon_workflow_runs_begun_total{$}", ""), "begun"), q(rate("carillon_workflow_runs_ended_total{$}", "outcome"), "{{outcome}}"), q(rate("carillon_workflow_loads_total{$}", ""), "loads")),
				lines("Steps", "ops", "Steps and items that were started, skipped, or could not be started.", q(rate("carillon_workflow_steps_total{$}", "what"), "{{what}}")),
				lines("Runs that wait for other jobs", "ops", "What became of them; stuck ones wait for what cannot come.", q(rate("carillon_joins_total{$}", "what"), "{{what}}")),
				lines("Events", "ops", "Accepted, and planned: everything that they start is stored.", q(rate("carillon_events_accepted_total{$}", ""), "accepted"), q(rate("carillon_events_planned_total{$}", ""), "planned")),
				lines("Jobs that events were offered to", "ops", "By what became of them.", q(rate("carillon_event_jobs_total{$}", "what"), "{{what}}")),
				lines("Nothing is called", "short", "1 if every run succeeds at once and nothing is called (executor.noop). 0 unless something is measured.", q("max by (instance) (carillon_executor_noop{$})", "{{instance}}")),
			}},
		},
	}
}
