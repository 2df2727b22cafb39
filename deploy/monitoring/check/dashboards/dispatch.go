package dashboards

func dispatch() Dashboard {
	return Dashboard{
		UID: "carillon-dispatch", Title: "Dispatch",
		About: "Whether every shard is dispatched by one node, and how far behind the furthest is.",
		Read: "Each shard has one owner. *Settled* says how far nothing is open any more; some minutes behind is normal. " +
			"Steps that fail are tried again.",
		Answer: []Panel{
			word("Is every shard dispatched?", "Shards of the cluster without an owner. Below 0: some have two.",
				`(max(carillon_ring_shards{$}) or sum(carillon_dispatcher_shards_owned{$})) - sum(carillon_dispatcher_shards_owned{$})`,
				Word{at(0), at(0), "Yes", green}, Word{at(.5), nil, "Some are not", red}, Word{nil, at(-.5), "Some twice", red}),
			stat("Shards", "short", "That are dispatched.", "sum(carillon_dispatcher_shards_owned{$})"),
			stat("Healthy dispatchers", "percentunit", "Nodes whose scans, publications and probes succeed.", "avg(carillon_dispatcher_healthy{$})", goodFrom(.5, 1)...),
			stat("Worst shard", "s", "Time since the end of the last settled minute.", "max(carillon_dispatcher_settled_lag_seconds{$})", worseFrom(900, 1800)...),
			stat("Steps that failed", "short", "In the time that is shown. They are tried again.", grown("carillon_dispatcher_step_failures_total{$}"), worseFrom(10, 100)...),
			stat("Reads, p99", "s", "Of what is due next, in the time that is shown.", "histogram_quantile(0.99, sum by (le) (rate(carillon_dispatcher_scan_seconds_bucket{$}[$__range])))", worseFrom(.25, 1)...),
		},
		Sections: []Section{
			{"Shards", []Panel{
				stacked("Shards of each node", "short", "That it dispatches.", q("sum by (instance) (carillon_dispatcher_shards_owned{$})", "{{instance}}")),
				lines("Worst shards", "s", "The ten that are furthest behind: time since the end of the last settled minute.", q("topk(10, max by (shard) (carillon_dispatcher_settled_lag_seconds{$}))", "{{shard}}")),
				lines("Settled by node", "s", "The furthest behind of each node.", q("max by (instance) (carillon_dispatcher_settled_lag_seconds{$})", "{{instance}}")),
				lines("Healthy nodes", "short", "0: scans, publications or probes have failed for 10 s, and others take its shards.", q("min by (instance) (carillon_dispatcher_healthy{$})", "{{instance}}")),
				lines("Shards taken over", "ops", "When nodes come and go, and when a node does not settle.", q(rate("carillon_dispatcher_takeovers_total{$}", "instance"), "{{instance}}")),
				lines("Halts", "ops", "Times that a process was found to have been stopped: its clock ran on and it did not.", q(rate("carillon_dispatcher_halts_total{$}", "instance"), "{{instance}}")),
			}},
			{"Reading", []Panel{
				lines("Reads ahead, p50 and p99", "s", "How long a read of what is due next takes.", q(quantile("0.5", "carillon_dispatcher_scan_seconds", ""), "p50"), q(quantile("0.99", "carillon_dispatcher_scan_seconds", ""), "p99")),
				lines("Reads", "ops", "Reads ahead, sweeps of what may have been left, and reads again of shards that waited too long.",
					q(rate("carillon_dispatcher_scans_total{$}", ""), "scans"), q(rate("carillon_dispatcher_sweeps_total{$}", ""), "sweeps"), q(rate("carillon_dispatcher_rereads_total{$}", ""), "again")),
				lines("Rows left for later", "ops", "Spilled: read and left, since memory is bounded. Ranges: left unread to be on time with those after them.",
					q(rate("carillon_dispatcher_spilled_rows_total{$}", ""), "spilled rows"), q(rate("carillon_dispatcher_unread_ranges_total{$}", ""), "unread ranges")),
				lines("Oldest unread rows", "s", "For how long the oldest rows have been due that scans left out.", q("max by (instance) (carillon_dispatcher_unread_seconds{$})", "{{instance}}")),
				lines("Hints", "ops", "Rows that are due soon: told to their dispatcher, and taken by it.", q(rate("carillon_near_hints_total{$}", ""), "told"), q(rate("carillon_dispatcher_hinted_total{$}", ""), "taken")),
				lines("Messages in the stream by priority", "short", "That wait or are held by executors.", q("sum by (priority) (max by (lane, priority) (carillon_dispatcher_stream_depth{$}))", "{{priority}}")),
			}},
			{"What went wrong", []Panel{
				lines("Steps that fail", "ops", "By step. They are tried again.", q(rate("carillon_dispatcher_step_failures_total{$}", "step")+" > 0 or vector(0)", "{{step}}")),
				lines("Published again", "ops", "Entries that may have been published before, entries whose rows were read for want of a notice, and those replaced by a watch entry.",
					q(rate("carillon_dispatcher_redispatched_total{$}", ""), "again"), q(rate("carillon_dispatcher_inspected_total{$}", ""), "inspected"), q(rate("carillon_dispatcher_replaced_total{$}", ""), "replaced")),
				lines("Publications that failed", "ops", "That the queue refused or did not confirm.", q(rate("carillon_dispatcher_publish_failures_total{$}", "instance"), "{{instance}}")),
				lines("Rows behind the sweep", "ops", "Found minutes after they were due, or held too late for their sweep.", q(rate("carillon_dispatcher_late_rows_total{$}", ""), "found"), q(rate("carillon_entries_late_total{$}", ""), "late entries")),
				lines("Recurring jobs", "ops", "Found without a next run (mended), or not able to go on (faults), and runs that are not listed until they end. Every one is a fault.",
					q(rate("carillon_jobs_mended_total{$}", ""), "mended"), q(rate("carillon_job_faults_total{$}", ""), "faults"), q(rate("carillon_job_runs_unlisted_total{$}", ""), "unlisted")),
				lines("Recurring jobs looked through", "ops", "For some without a next run: 50 of each shard every 5 s, whatever their number.", q(rate("carillon_jobs_looked_through_total{$}", ""), "jobs")),
				lines("Looking through a recurring job", "s", "How long it takes, mean: a share of a read of jobs, and a read of its next run.",
					q(rate("carillon_jobs_looked_through_seconds_total{$}", "")+" / "+rate("carillon_jobs_looked_through_total{$}", ""), "a job")),
				lines("Jobs paused by failures", "ops", "As many of their runs failed in a row as they allow (pause_on_failure).", q(rate("carillon_jobs_paused_total{$}", ""), "paused")),
				lines("Cursors from the future", "ops", "Replaced by one an hour ago: a clock was wrong.", q(rate("carillon_dispatcher_cursors_ahead_total{$}", ""), "cursors")),
			}},
		},
	}
}
