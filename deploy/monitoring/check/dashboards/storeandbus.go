package dashboards

// ClustersOnly is why panels of Cassandra and the ring are empty in one process.
const ClustersOnly = "carillon dev has neither Cassandra nor a ring, nor NATS for others"

// statementsFail is the share of statements that fail.
const statementsFail = `sum(rate(carillon_cassandra_statements_total{$,result=~"unavailable|unknown|error"}[$__rate_interval]))
  / sum(rate(carillon_cassandra_statements_total{$}[$__rate_interval]))`

func storeAndBus() Dashboard {
	return Dashboard{
		UID: "carillon-store-and-bus", Title: "Store and bus",
		About: "How Cassandra and NATS answer.",
		Read: "*unavailable* and *unknown* (timed out) are trouble of Cassandra; *conflict* and *not_found* are answers. " +
			"A few redeliveries follow each stop of a node.",
		Answer: []Panel{
			word("Do store and bus answer?", "By statements that fail, outcomes that could not be recorded and publications that were refused, over the last minutes.",
				`((`+statementsFail+`) or vector(0)) + (sum(rate(carillon_executor_record_failures_total{$}[$__rate_interval])) or vector(0))
  + (sum(rate(carillon_queue_publications_total{$,outcome=~"full|unknown"}[$__rate_interval])) or vector(0))`,
				Word{nil, at(.001), "Yes", green}, Word{at(.001), at(.05), "Mostly", yellow}, Word{at(.05), nil, "No", red}),
			stat("Statements that fail", "percentunit", "Of those to Cassandra.", statementsFail, worseFrom(.001, .05)...).emptyIf(ClustersOnly),
			stat("Statements, p99", "s", "From the first sending to the result, retries included.", quantile("0.99", "carillon_cassandra_statement_seconds", ""), worseFrom(.1, .5)...).emptyIf(ClustersOnly),
			stat("Not recorded at once", "short", "Batches of outcomes that could not be recorded at the first try, in the time that is shown.", grown("carillon_executor_record_failures_total{$}"), worseFrom(1, 5)...),
			stat("Publications refused", "short", "Since a stream is full, in the time that is shown.", grown(`carillon_queue_publications_total{$,outcome="full"}`), badFrom(.5)...),
			stat("Rows not understood", "short", "Reads of stored rows, in the time that is shown.", `(`+grown("carillon_store_unreadable_rows_total{$}")+`) or vector(0)`, badFrom(.5)...),
		},
		Sections: []Section{
			{"Cassandra", []Panel{
				stacked("Statements by result", "ops", "A batch counts once, and so does a page.", q(rate("carillon_cassandra_statements_total{$}", "result"), "{{result}}")).emptyIf(ClustersOnly),
				lines("Statements by name", "ops", "The ten that are sent most.", q("topk(10, "+rate("carillon_cassandra_statements_total{$}", "statement")+")", "{{statement}}")).emptyIf(ClustersOnly),
				lines("Statements by name, p99", "s", "The ten that take longest.", q("topk(10, "+quantile("0.99", "carillon_cassandra_statement_seconds", "statement")+" > 0)", "{{statement}}")).emptyIf(ClustersOnly),
				lines("Statements sent again", "ops", "By name, the ten most.", q("topk(10, "+rate("carillon_cassandra_retries_total{$}", "statement")+")", "{{statement}}")).emptyIf(ClustersOnly),
				lines("Rows written", "ops", "By statement, the ten most.", q("topk(10, "+rate("carillon_cassandra_rows_written_total{$}", "statement")+")", "{{statement}}")).emptyIf(ClustersOnly),
				lines("Statements that may be under way", "short", "By node. Fewer than 256: Cassandra answers slowly, and is asked less.", q("min by (instance) (carillon_cassandra_statements_allowed{$})", "{{instance}}")).emptyIf(ClustersOnly),
			}},
			{"NATS", []Panel{
				lines("Nodes that NATS answers", "short", "By node: 1 if NATS answers it and has its streams. At 0 it starts nothing and refuses jobs.", q("min by (instance) (carillon_queue_ready{$})", "{{instance}}")),
				stacked("Publications by outcome", "ops", "Known: the stream had it already. Unknown: no receipt came.", q(rate("carillon_queue_publications_total{$}", "outcome"), "{{outcome}}")),
				lines("Publications under way", "short", "Without receipt yet, by node.", q("sum by (instance) (carillon_queue_publications_under_way{$})", "{{instance}}")),
				lines("Messages in streams", "short", "That wait or are held by executors, by lane.", q("sum by (lane) (max by (lane, priority) (carillon_dispatcher_stream_depth{$}))", "lane {{lane}}")),
				lines("Deliveries", "ops", "Messages handed to nodes, and those that had been handed out before.", q(rate("carillon_queue_deliveries_total{$}", ""), "all"), q(rate("carillon_queue_redeliveries_total{$}", ""), "again")),
				lines("Messages held", "short", "Not acknowledged yet, by node.", q("sum by (instance) (carillon_executor_messages_held{$})", "{{instance}}")),
				lines("Trouble", "ops", "Reconnects, streams made, messages that could not be read, and acknowledgements, hints and signals that could not be sent.",
					q(rate("carillon_queue_reconnects_total{$}", ""), "reconnects"), q(rate("carillon_queue_streams_made_total{$}", ""), "streams made"),
					q(rate("carillon_queue_consumers_mended_total{$}", ""), "consumers mended"),
					q(rate("carillon_queue_malformed_total{$}", ""), "malformed"), q(rate("carillon_queue_unsent_total{$}", ""), "unsent")),
			}},
			{"What could not be kept", []Panel{
				lines("Outcomes not recorded at once", "ops", "Batches, by node. They are tried again.", q(rate("carillon_executor_record_failures_total{$}", "instance"), "{{instance}}")),
				lines("Rows not understood by table", "ops", "By table. Each row is logged once.", q("("+rate("carillon_store_unreadable_rows_total{$}", "table")+") or vector(0)", "{{table}}")),
				lines("Audit log", "ops", "Entries that a quorum holds, and those given up: more than 0 only after the store was away for long.",
					q(rate("carillon_audit_entries_written_total{$}", ""), "written"), q(rate("carillon_audit_entries_dropped_total{$}", ""), "given up")),
			}},
		},
	}
}
