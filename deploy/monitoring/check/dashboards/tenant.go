package dashboards

// tenantInTime is the share of a tenant's first starts that were at most 1 s late.
const tenantInTime = `sum(increase(carillon_tenant_lateness_seconds_bucket{$,tenant="$tenant",le=~"1|1.0"}[$__range]))
  / sum(increase(carillon_tenant_lateness_seconds_count{$,tenant="$tenant"}[$__range]))`

func tenant() Dashboard {
	return Dashboard{
		UID: "carillon-tenant", Title: "Tenant", Tenant: true,
		About: "One tenant: whether its runs are on time, how they end, and what of it waits.",
		Read: "Each node names the 50 tenants that do most; all others are `*`. A tenant that was named late has no earlier counts here: " +
			"`carillon stats top tenant` knows all of 14 days.",
		Answer: []Panel{
			word("Is it on time?", "By the share of its first starts that were at most 1 s late, in the time that is shown.", tenantInTime,
				Word{at(.999), nil, "Yes", green}, Word{at(.99), at(.999), "Mostly", yellow}, Word{nil, at(.99), "No", red}),
			stat("In time", "percentunit", "Share of its first starts that were at most 1 s late, in the time that is shown.", tenantInTime, goodFrom(.99, .999)...),
			stat("Starts a second", "ops", "Runs that started for the first time.", rate(`carillon_tenant_lateness_seconds_count{$,tenant="$tenant"}`, "")),
			stat("Attempts that fail", "percentunit", "Share of the attempts that ended, in the time that is shown.",
				`sum(increase(carillon_tenant_ends_total{$,tenant="$tenant",outcome="failed"}[$__range])) / sum(increase(carillon_tenant_ends_total{$,tenant="$tenant",outcome=~"failed|succeeded"}[$__range]))`, worseFrom(.05, .25)...),
			stat("Missed", "short", "Runs, in the time that is shown.", grown(`carillon_tenant_ends_total{$,tenant="$tenant",outcome="missed"}`), badFrom(.5)...),
			stat("Waiting", "short", "Due, and without budget in dispatchers' memory.", `sum(carillon_dispatcher_tenant_waiting{$,tenant="$tenant"}) or vector(0)`, worseFrom(1000, 10000)...),
		},
		Sections: []Section{
			{"This tenant", []Panel{
				lines("Lateness, p50 and p99", "s", "In few classes: it says in which class the rank lies.",
					q(`histogram_quantile(0.5, sum by (le) (rate(carillon_tenant_lateness_seconds_bucket{$,tenant="$tenant"}[$__rate_interval])))`, "p50"),
					q(`histogram_quantile(0.99, sum by (le) (rate(carillon_tenant_lateness_seconds_bucket{$,tenant="$tenant"}[$__rate_interval])))`, "p99")),
				stacked("Ends by outcome", "ops", "Attempts that succeeded or failed, and runs that were missed.", q(rate(`carillon_tenant_ends_total{$,tenant="$tenant"}`, "outcome"), "{{outcome}}")),
				lines("Due, started, retried", "ops", "Entries that were handed to executors, runs that started for the first time, retries that were written.",
					q(rate(`carillon_tenant_due_total{$,tenant="$tenant"}`, ""), "due"), q(rate(`carillon_tenant_lateness_seconds_count{$,tenant="$tenant"}`, ""), "started"), q(rate(`carillon_tenant_retries_total{$,tenant="$tenant"}`, ""), "retried")),
			}},
			{"Among the others", []Panel{
				lines("Tenants that start most", "ops", "The ten, and all that are not named (*).", q("topk(10, "+rate("carillon_tenant_lateness_seconds_count{$}", "tenant")+")", "{{tenant}}")),
				lines("Tenants that are late most", "ops", "First starts more than 1 s late, the ten.",
					q(`topk(10, sum by (tenant) (rate(carillon_tenant_lateness_seconds_count{$}[$__rate_interval])) - sum by (tenant) (rate(carillon_tenant_lateness_seconds_bucket{$,le=~"1|1.0"}[$__rate_interval])))`, "{{tenant}}")),
				lines("Tenants that fail most", "ops", "Attempts, the ten.", q("topk(10, "+rate(`carillon_tenant_ends_total{$,outcome="failed"}`, "tenant")+")", "{{tenant}}")),
			}},
		},
	}
}
