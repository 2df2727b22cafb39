package dashboards

// inTime is the share of first starts that were at most 1 s late, in the time that is shown.
const inTime = `sum(increase(carillon_executor_lateness_seconds_bucket{$,le=~"1|1.0"}[$__range]))
  / sum(increase(carillon_executor_lateness_seconds_count{$}[$__range]))`

// byFault counts runs that were missed by our fault.
const byFault = `sum(increase(carillon_executor_missed_total{$,cause=~"fault|unreadable"}[$__range]))
  + sum(increase(carillon_occurrences_missed_total{$,cause="fault"}[$__range]))`

func onTime() Dashboard {
	return Dashboard{
		UID: "carillon-on-time", Title: "On time?",
		About: "Whether runs start when they are due, and how much of the budget for late starts is left.",
		Read: "**In time** = first start at most 1 s after it was due. The goal is 99.9 % over 30 days. " +
			"*Burn* 1 uses up the budget in just 30 days; 14.4 in two.",
		Answer: []Panel{
			word("Are runs on time?", "By the share of first starts that were at most 1 s late, in the time that is shown.", inTime,
				Word{at(.999), nil, "Yes", green}, Word{at(.99), at(.999), "Mostly", yellow}, Word{nil, at(.99), "No", red}),
			stat("In time", "percentunit", "Share of first starts that were at most 1 s late, in the time that is shown.", inTime, goodFrom(.99, .999)...),
			stat("Budget left", "percentunit", "What is left of the 0.1 % of 30 days that may be late. Below 0: more was late than may be.",
				`1 - (1 - sum(increase(carillon_executor_lateness_seconds_bucket{$,le=~"1|1.0"}[30d]))
  / sum(increase(carillon_executor_lateness_seconds_count{$}[30d]))) / 0.001`, goodFrom(0, .25)...),
			stat("Late, p99", "s", "99 of 100 first starts were at most so late, in the time that is shown.",
				"histogram_quantile(0.99, sum by (le) (rate(carillon_executor_lateness_seconds_bucket{$}[$__range])))", worseFrom(.5, 1)...),
			stat("Too early", "short", "Attempts that started before they were due. It is 0, or there is a bug or a wrong clock.", grown("carillon_executor_early_total{$}"), badFrom(.5)...),
			stat("Missed by our fault", "short", "Runs that were missed since what is stored of them could not be read.", byFault, badFrom(.5)...),
		},
		Sections: []Section{
			{"How late", []Panel{
				heat("Lateness", "s", "First starts by how late they were.", `sum by (le) (increase(carillon_executor_lateness_seconds_bucket{$}[$__rate_interval]))`),
				lines("Lateness, p50, p99, p999", "s", "Half, 99 of 100 and 999 of 1,000 first starts were at most so late.",
					q(quantile("0.5", "carillon_executor_lateness_seconds", ""), "p50"), q(quantile("0.99", "carillon_executor_lateness_seconds", ""), "p99"),
					q(quantile("0.999", "carillon_executor_lateness_seconds", ""), "p999")),
				lines("Late by priority", "s", "p99 of each priority. If only low is late, the others are protected from it.",
					q(quantile("0.99", "carillon_executor_priority_lateness_seconds", "priority"), "{{priority}}")),
				lines("Burn of the budget", "short", "How many times faster the budget of 30 days is used up than it may be. 14.4 over 1h pages, as 6 over 6h does; 1 over 3d is a ticket.",
					q("carillon:starts_late:ratio_5m{#} / 0.001", "5m"), q("carillon:starts_late:ratio_1h{#} / 0.001", "1h"),
					q("carillon:starts_late:ratio_6h{#} / 0.001", "6h"), q("carillon:starts_late:ratio_3d{#} / 0.001", "3d")),
				lines("Late share by priority", "percentunit", "Share of first starts that were more than 1 s late.",
					q(`1 - sum by (priority) (rate(carillon_executor_priority_lateness_seconds_bucket{$,le=~"1|1.0"}[$__rate_interval]))
  / sum by (priority) (rate(carillon_executor_priority_lateness_seconds_count{$}[$__rate_interval]))`, "{{priority}}")),
				lines("First starts", "ops", "Runs that started for the first time, a second.", q(rate("carillon_executor_lateness_seconds_count{$}", ""), "starts")),
			}},
			{"What did not start", []Panel{
				lines("Due and not started", "short", "Runs whose target is broken or slow, or that executors have no room for. Left out is what was asked for: low priority, rates, limits, regions. They are late once they start.",
					q("carillon:unstarted{#}", "runs")),
				lines("Due and not started, the oldest", "s", "For how long the oldest of them has been due.", q("carillon:unstarted:oldest_seconds{#}", "oldest")),
				lines("Missed by cause", "ops", "Runs recorded as missed when an executor had them: too late by their policy (deadline), skipped, changed before, or not readable.",
					q(rate("carillon_executor_missed_total{$}", "cause"), "{{cause}}")),
				lines("Given up before an executor was asked", "ops", "Nominal times of recurring jobs and workflows that were given up, by cause.",
					q(rate("carillon_occurrences_missed_total{$}", "cause"), "{{cause}}")),
				lines("Started too early", "ops", "Always 0.", q(rate("carillon_executor_early_total{$}", "instance"), "{{instance}}")),
			}},
		},
	}
}
