package dashboards

// RegionsOnly is why panels of regions are empty where there are none.
const RegionsOnly = "there are no regions here"

func ring() Dashboard {
	return Dashboard{
		UID: "carillon-ring", Title: "Ring",
		About: "Which nodes there are, whether they agree, and how they are: version, clock, configuration, memory.",
		Read: "All nodes see the same members, or the network is cut. A clock that is off by more than 1 s starts nothing. " +
			"Two versions are normal while one is rolled out.",
		Answer: []Panel{
			word("Do nodes agree?", "The most and the fewest members of a role that a node sees.",
				`max(max by (role) (carillon_ring_members{$}) - min by (role) (carillon_ring_members{$}))`,
				Word{at(0), at(0), "Yes", green}, Word{at(.5), nil, "No", red}).emptyIf(ClustersOnly),
			stat("Nodes", "short", "That Prometheus scrapes and that answer.", "count(carillon_build_info{$})"),
			stat("Versions", "short", "Of Carillon, side by side.", "count(count by (version) (carillon_build_info{$}))", Step{0, green}, Step{2, yellow}),
			stat("Worst clock", "s", "The largest offset of a node's clock from the median of the others.", "max(abs(carillon_clock_offset_seconds{$}))", worseFrom(.1, .5)...),
			stat("Given up for dead", "short", "Members, as the node that saw most of them counted, in the time that is shown.",
				`max(increase(carillon_ring_departures_total{$,status="dead"}[$__range]))`, badFrom(.5)...).emptyIf(ClustersOnly),
			stat("Configuration", "short", "Nodes whose changed configuration has a fault, or is in force only after a restart.",
				"sum(1 - carillon_config_reload_ok{$}) + sum(carillon_config_restart_needed{$})", badFrom(.5)...),
		},
		Sections: []Section{
			{"Members", []Panel{
				lines("Members by node and role", "short", "As each node sees them.", q("sum by (instance, role) (carillon_ring_members{$})", "{{instance}} {{role}}")).emptyIf(ClustersOnly),
				lines("Nodes, and as many as usual", "short", "Nodes that answer Prometheus, and how many did for most of the last day.",
					q("carillon:nodes{#}", "nodes"), q("quantile_over_time(0.9, carillon:nodes{#}[1d])", "usually")),
				lines("Departures", "ops", "Members that said so (left), and that were given up (dead).", q(rate("carillon_ring_departures_total{$}", "status"), "{{status}}")).emptyIf(ClustersOnly),
				lines("Shards by view", "short", "What each node owns in its own view. Together they are as many as the cluster has.",
					q("sum by (instance) (carillon_ring_shards_owned{$})", "{{instance}}"), q("max(carillon_ring_shards{$})", "cluster")).emptyIf(ClustersOnly),
				lines("Changes of the ring", "ops", "Snapshots published, and messages about members that could not be read.", q(rate("carillon_ring_rebuilds_total{$}", ""), "snapshots"), q(rate("carillon_ring_members_refused_total{$}", ""), "refused")).emptyIf(ClustersOnly),
				lines("Joining again", "ops", "Attempts to join the seeds, and those that reached none.", q(rate("carillon_ring_rejoins_total{$}", ""), "tried"), q(rate("carillon_ring_rejoin_failures_total{$}", ""), "none reached")).emptyIf(ClustersOnly),
				stacked("Nodes by version", "short", "Nodes by version and Go.", q("count by (version, go) (carillon_build_info{$})", "{{version}} ({{go}})")),
			}},
			{"Clocks and configuration", []Panel{
				lines("Clock offset", "s", "By how much each node's clock is ahead of the median of the others.", q("max by (instance) (carillon_clock_offset_seconds{$})", "{{instance}}")),
				lines("Votes on clocks", "short", "Hosts that agree with the clock of a node, differ, or are silent; nodes without another host to compare with.",
					q("sum by (vote) (carillon_clock_hosts{$})", "{{vote}}"), q("sum(carillon_clock_unchecked{$})", "unchecked")),
				lines("Configuration by node", "short", "Faulty: that before is in force. Restart: a change waits for one; the log names it.",
					q("sum by (instance) (1 - carillon_config_reload_ok{$})", "{{instance}} faulty"), q("sum by (instance) (carillon_config_restart_needed{$})", "{{instance}} restart")),
			}},
			{"Regions", []Panel{
				lines("Homes by epoch", "short", "The epoch in which the region of each node serves a home; 0: it does not. Every home is served by one region.",
					q("max by (instance, home) (carillon_region_home_epoch{$})", "{{instance}} {{home}}")).emptyIf(RegionsOnly),
				lines("Replication lag", "s", "So much of what the other region did may be missing here.",
					q("max by (instance, region) (carillon_region_replication_lag_seconds{$})", "{{instance}} from {{region}}")).emptyIf(RegionsOnly),
				lines("Conditional writes of unknown outcome", "short", "By node: rows that other regions may lack until all data centres have been read.",
					q("max by (instance) (carillon_cassandra_unknown_rows{$})", "{{instance}}")).emptyIf(RegionsOnly),
				lines("Requests sent on", "ops", "To the region that serves their home, by what became of them.",
					q(rate("carillon_region_forwarded_total{$}", "region, outcome"), "{{region}} {{outcome}}")).emptyIf(RegionsOnly),
				lines("Epochs and signs of life", "ops", "Reads of who serves that failed, and signs of life that were not written.",
					q(rate("carillon_region_epoch_reads_failed_total{$}", ""), "reads failed"), q(rate("carillon_region_beats_failed_total{$}", ""), "not written")).emptyIf(RegionsOnly),
			}},
			{"Processes", []Panel{
				lines("CPU", "short", "Cores that each node uses.", q(rate("process_cpu_seconds_total{$}", "instance"), "{{instance}}")),
				lines("Memory", "bytes", "Resident, and what of it is heap in use.", q("sum by (instance) (process_resident_memory_bytes{$})", "{{instance}}"), q("sum by (instance) (go_memstats_heap_inuse_bytes{$})", "{{instance}} heap")),
				lines("Goroutines and files", "short", "By node.", q("sum by (instance) (go_goroutines{$})", "{{instance}} goroutines"), q("sum by (instance) (process_open_fds{$})", "{{instance}} files")),
				lines("Garbage collection", "percentunit", "Share of time that goroutines stood still for it.", q(rate("go_gc_duration_seconds_sum{$}", "instance"), "{{instance}}")),
				lines("Network", "Bps", "Received and sent.", q(rate("process_network_receive_bytes_total{$}", "instance"), "{{instance}} in"), q(rate("process_network_transmit_bytes_total{$}", "instance"), "{{instance}} out")),
				lines("Spans of traces", "ops", "What became of them: dropped, since the queue was full, or failed, since the collector did not take them. None where no collector is configured.",
					q(rate("carillon_trace_spans_total{$}", "result"), "{{result}}")),
				lines("Up for", "s", "Since the process began.", q("max by (instance) (time() - process_start_time_seconds{$})", "{{instance}}")),
			}},
		},
	}
}
