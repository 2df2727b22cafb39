package dashboards

// routes leaves out what machines ask all the time.
const routes = `route!~"/readyz|/healthz|/metrics"`

// apiFails is the share of requests that are answered with 5xx, over a window.
func apiFails(window string) string {
	return `(sum(rate(carillon_http_requests_total{$,status=~"5..",` + routes + `}[` + window + `])) or vector(0))
  / sum(rate(carillon_http_requests_total{$,` + routes + `}[` + window + `]))`
}

func api() Dashboard {
	return Dashboard{
		UID: "carillon-api", Title: "API and imports",
		About: "What is asked of the API, how it answers and how fast.",
		Read: "The goal is 99.9 % of requests without 5xx over 30 days. 429 and 503 with Retry-After are back-pressure: clients repeat. " +
			"Imports are counted by line.",
		Answer: []Panel{
			word("Does the API answer?", "By the share of requests that were answered with 5xx, in the time that is shown.", apiFails("$__range"),
				Word{nil, at(.001), "Yes", green}, Word{at(.001), at(.01), "Mostly", yellow}, Word{at(.01), nil, "No", red}),
			stat("5xx", "percentunit", "Share of requests, in the time that is shown.", apiFails("$__range"), worseFrom(.001, .01)...),
			stat("Requests a second", "reqps", "Probes and scrapes left out.", rate("carillon_http_requests_total{$,"+routes+"}", "")),
			stat("Answers, p99", "s", "From the head of a request to the end of its answer, imports left out.",
				`histogram_quantile(0.99, sum by (le) (rate(carillon_http_request_duration_seconds_bucket{$,`+routes+`}[$__range])))`, worseFrom(.5, 2)...),
			stat("Jobs refused", "short", "Before anything was written, in the time that is shown.", grown("carillon_intake_refused_total{$}"), worseFrom(1, 100)...),
			stat("Imported lines", "short", "Answered, in the time that is shown.", `(`+grown("carillon_import_lines_total{$}")+`) or vector(0)`),
		},
		Sections: []Section{
			{"Requests", []Panel{
				lines("Requests by route", "reqps", "The ten most.", q("topk(10, "+rate("carillon_http_requests_total{$,"+routes+"}", "method, route")+")", "{{method}} {{route}}")),
				stacked("Answers by status", "reqps", "All routes.", q(rate("carillon_http_requests_total{$,"+routes+"}", "status"), "{{status}}")),
				lines("5xx by route and status", "reqps", "One route or all, one node or all?", q("("+rate(`carillon_http_requests_total{$,status=~"5..",`+routes+"}", "route, status, instance")+") or vector(0)", "{{instance}} {{route}} {{status}}")),
				lines("Slowest routes, p99", "s", "The ten.", q("topk(10, "+`histogram_quantile(0.99, sum by (le, method, route) (rate(carillon_http_request_duration_seconds_bucket{$,`+routes+`}[$__rate_interval]))) > 0)`, "{{method}} {{route}}")),
				heat("Answers by duration", "s", "All routes.", `sum by (le) (increase(carillon_http_request_duration_seconds_bucket{$,`+routes+`}[$__rate_interval]))`),
				lines("Under way", "short", "Requests being answered, by node.", q("sum by (instance) (carillon_http_requests_in_flight{$})", "{{instance}}")),
			}},
			{"What comes in", []Panel{
				lines("Jobs refused by reason", "ops", "Not ready, overloaded, or a minute and shard that is full.", q(rate("carillon_intake_refused_total{$}", "reason"), "{{reason}}")),
				lines("Imported lines by status", "ops", "201: created.", q(rate("carillon_import_lines_total{$}", "status"), "{{status}}")),
				lines("Imported lines that fail", "percentunit", "Share of the lines that were answered with 5xx. The import itself answers 200.",
					q(`sum(rate(carillon_import_lines_total{$,status=~"5.."}[$__rate_interval])) / sum(rate(carillon_import_lines_total{$}[$__rate_interval]))`, "5xx")),
				lines("Imports", "short", "Being read; and slice reads that looked for keyed lines, a second.", q("sum(carillon_imports_in_flight{$})", "under way"), q(rate("carillon_key_reads_total{$}", ""), "key reads")),
				lines("Burn of the budget", "short", "How many times faster the budget of 30 days is used up than it may be.",
					q("carillon:api_errors:ratio_5m{#} / 0.001", "5m"), q("carillon:api_errors:ratio_1h{#} / 0.001", "1h"), q("carillon:api_errors:ratio_6h{#} / 0.001", "6h"), q("carillon:api_errors:ratio_3d{#} / 0.001", "3d")),
				lines("Events on NATS refused", "ops", "That clients published: their names, or their bodies, or those of the system.", q(rate("carillon_events_refused_total{$}", ""), "refused")).emptyIf(ClustersOnly),
				lines("Calls that were not allowed", "ops", "Connections refused because tasks may not call the address, and what tokens and secrets came to.",
					q(rate("carillon_executor_http_denied_total{$}", ""), "denied"), q(rate("carillon_executor_tokens_total{$}", "result"), "token {{result}}"), q(rate("carillon_secrets_uses_total{$}", "result"), "secret {{result}}")),
			}},
		},
	}
}
