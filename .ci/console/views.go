package console

import "cmp"

// A View is a view of the page, and where it is found.
type View struct {
	Name string
	// Place is where it is found in a world.
	Place func(w *World) string
	// Thing says that the view is about one thing.
	Thing bool
}

func at(place string) func(*World) string { return func(*World) string { return place } }

// Views are all views, in the order of the page's own list.
var Views = []View{
	{Name: "overview", Place: at("#/")},
	{Name: "coming hour", Place: at("#/coming")},
	{Name: "runs", Place: at("#/runs")},
	{Name: "runs, failed", Place: at("#/runs?state=failed&state=missed")},
	{Name: "run, succeeded", Place: func(w *World) string { return "#/runs/" + w.run("succeeded") }, Thing: true},
	{Name: "run, failed", Place: func(w *World) string { return "#/runs/" + w.run("failed") }, Thing: true},
	{Name: "run, retrying", Place: func(w *World) string { return "#/runs/" + w.run("retrying") }, Thing: true},
	{Name: "run, running", Place: func(w *World) string { return "#/runs/" + w.run("running") }, Thing: true},
	{Name: "run, deferred", Place: func(w *World) string { return "#/runs/" + w.run("deferred") }, Thing: true},
	{Name: "run, missed", Place: func(w *World) string { return "#/runs/" + w.run("missed") }, Thing: true},
	{Name: "run, waiting", Place: func(w *World) string { return "#/runs/" + w.run("waiting") }, Thing: true},
	{Name: "logs", Place: at("#/logs")},
	{Name: "jobs", Place: at("#/jobs")},
	{Name: "job", Place: at("#/jobs/nightly-report"), Thing: true},
	{Name: "new job", Place: at("#/jobs/new")},
	{Name: "change job", Place: at("#/jobs/nightly-report/edit"), Thing: true},
	{Name: "workflows", Place: at("#/workflows")},
	{Name: "workflow", Place: at("#/workflows/etl"), Thing: true},
	{Name: "new workflow", Place: at("#/workflows/new")},
	{Name: "change workflow", Place: at("#/workflows/etl/edit"), Thing: true},
	{Name: "workflow run, fan-out", Place: func(w *World) string { return "#/workflow-runs/" + w.workflowRun("fan-out") }, Thing: true},
	{Name: "workflow run, waits", Place: func(w *World) string { return "#/workflow-runs/" + w.workflowRun("waits") }, Thing: true},
	{Name: "workflow run, failed", Place: func(w *World) string { return "#/workflow-runs/" + w.workflowRun("failed") }, Thing: true},
	{Name: "workflow run, wide", Place: func(w *World) string { return "#/workflow-runs/" + w.workflowRun("wide") }, Thing: true},
	{Name: "tasks", Place: at("#/tasks")},
	{Name: "task", Place: at("#/tasks/send-email"), Thing: true},
	{Name: "dead letters", Place: at("#/dead-letters")},
	{Name: "dead letter", Place: func(w *World) string { return "#/dead-letters/" + w.run("failed") }, Thing: true},
	{Name: "operations", Place: at("#/operations")},
	{Name: "operation", Place: func(w *World) string {
		return "#/operations/" + cmp.Or(w.Operation, "01890000-0000-7000-8000-000000000000")
	}, Thing: true},
	{Name: "import", Place: at("#/import")},
	{Name: "events", Place: at("#/events")},
	{Name: "notifications", Place: at("#/notifications")},
	{Name: "notification", Place: at("#/notifications/billing"), Thing: true},
	{Name: "new notification", Place: at("#/notifications/new")},
	{Name: "change notification", Place: at("#/notifications/billing/edit"), Thing: true},
	{Name: "secrets", Place: at("#/secrets")},
	{Name: "tenants", Place: at("#/tenants")},
	{Name: "tenant", Place: at("#/tenants/acme"), Thing: true},
	{Name: "API keys", Place: at("#/keys")},
	{Name: "quotas", Place: at("#/quotas")},
	{Name: "signing keys", Place: at("#/signing-keys")},
	{Name: "audit", Place: at("#/audit")},
	{Name: "cluster", Place: at("#/cluster")},
	{Name: "nowhere", Place: at("#/no/such/view")},
}
