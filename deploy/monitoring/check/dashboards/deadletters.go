package dashboards

// letters counts dead letters by what was done with them, over a window.
func letters(events, window string) string {
	return `sum(increase(carillon_dead_letters_total{$,event=~"` + events + `"}[` + window + `]))`
}

// lettersWaiting is how many dead letters wait: each tenant's are counted by one node.
const lettersWaiting = "sum(carillon_dead_letters_waiting{$})"

func deadLetters() Dashboard {
	return Dashboard{
		UID: "carillon-dead-letters", Title: "Dead letters, operations, notifications",
		About: "Runs that failed for good and wait for somebody, and what operations do about them.",
		Read: "A dead letter is kept for 30 days, or as `dead_letters.retention` says. *Waiting* is counted in the store, by each node for its tenants, " +
			"once a minute or slower where there are many; of a tenant's day the newest 10,000 are looked at.",
		Answer: []Panel{
			word("Does somebody have to look?", "By the dead letters that wait.", lettersWaiting,
				Word{nil, at(.5), "No", green}, Word{at(.5), at(100), "Yes", yellow}, Word{at(100), nil, "Yes: many", red}),
			stat("Dead letters waiting", "short", "To be replayed or discarded, as counted last.", lettersWaiting, worseFrom(1, 100)...),
			stat("Written", "short", "In the time that is shown.", letters("written", "$__range"), worseFrom(1, 100)...),
			stat("Resolved", "short", "Replayed, discarded, or superseded by a success, in the time that is shown.", letters("replayed|discarded|overtaken", "$__range")),
			stat("Given up", "short", "Dead letters and retries that are too large to be kept, in the time that is shown.",
				letters("too_large", "$__range")+" + "+grown("carillon_retries_given_up_total{$}"), badFrom(.5)...),
			stat("Operations open", "short", "Of all tenants, as the node sees them that sees most.", "sum(max by (action) (carillon_operations_open{$}))"),
		},
		Sections: []Section{
			{"Dead letters", []Panel{
				lines("Dead letters waiting, over time", "short", "Of all tenants, as counted last.", q(lettersWaiting, "waiting")),
				stacked("Dead letters by what was done", "ops", "Written may count one more than once.", q(rate("carillon_dead_letters_total{$}", "event"), "{{event}}")),
				lines("Counting that failed", "ops", "Dead letters could not be counted, since the store could not be read: the number stays as it was.",
					q(rate("carillon_dead_letter_count_failures_total{$}", ""), "passes")),
				lines("Retries given up", "ops", "Runs that failed because their retry was too large to be written.", q(rate("carillon_retries_given_up_total{$}", ""), "retries")),
				lines("Attempts that fail", "ops", "What dead letters are made of, after the last retry.", q(rate(`carillon_executor_attempts_total{$,outcome=~"failed|timed_out|lost"}`, "outcome"), "{{outcome}}")),
			}},
			{"Operations", []Panel{
				lines("Operations open by action", "short", "By action.", q("max by (action) (carillon_operations_open{$})", "{{action}}")),
				lines("What operations did", "ops", "By action and result.", q("("+rate("carillon_operation_acts_total{$}", "action, result")+" > 0) or vector(0)", "{{action}} {{result}}")),
				lines("Steps of operations", "ops", "Pages of what matches. What failed is repeated.", q("("+rate("carillon_operation_steps_total{$}", "action, result")+" > 0) or vector(0)", "{{action}} {{result}}")),
			}},
			{"Notifications", []Panel{
				lines("Messages to tenants", "ops", "By sink and what became of them: sent (a run was written), delivered, or failed after all attempts.",
					q("("+rate("carillon_notifications_total{$}", "sink, result")+" > 0) or vector(0)", "{{sink}} {{result}}")),
				lines("Notifying that failed", "ops", "Steps of notifying a tenant that failed, such as a read of the store: they are taken again.",
					q(rate("carillon_notification_failures_total{$}", ""), "steps")),
			}},
			{"Events of the system, and what runs leave", []Panel{
				lines("Events of the system", "ops", "Published (a run failed, a dead letter was made, and so on), and dropped since too many events led to them.",
					q(rate("carillon_system_events_total{$}", ""), "published"), q(rate("carillon_system_events_dropped_total{$}", ""), "dropped")),
				lines("Lines that workers logged", "ops", "By what became of them.", q(rate("carillon_executor_log_lines_total{$}", "fate"), "{{fate}}")),
				lines("Outputs and scripts", "ops", "Outputs of which not everything could be kept; scripts that could not be ended.",
					q(rate("carillon_executor_outputs_cut_total{$}", ""), "outputs cut"), q(rate("carillon_executor_scripts_left_total{$}", ""), "scripts left")),
			}},
		},
	}
}
