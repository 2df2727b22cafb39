package console

// A View is a view of the page, and where it is found.
type View struct {
	Name string
	// Place is its place on a server with nothing; with a world it may need a thing of it.
	Place func(w *World) string
	// Thing says that the view is about one thing: it has no place where there is nothing.
	Thing bool
}

func at(place string) func(*World) string { return func(*World) string { return place } }

// Views are all views, in the order of the page's own list.
var Views = []View{
	{Name: "overview", Place: at("#/")},
	{Name: "runs", Place: at("#/runs")},
	{Name: "runs, failed", Place: at("#/runs?state=failed&state=missed")},
	{Name: "run, succeeded", Place: func(w *World) string { return "#/runs/" + w.Runs["succeeded"].String() }, Thing: true},
	{Name: "run, failed", Place: func(w *World) string { return "#/runs/" + w.Runs["failed"].String() }, Thing: true},
	{Name: "run, retrying", Place: func(w *World) string { return "#/runs/" + w.Runs["retrying"].String() }, Thing: true},
	{Name: "run, running", Place: func(w *World) string { return "#/runs/" + w.Runs["running"].String() }, Thing: true},
	{Name: "run, deferred", Place: func(w *World) string { return "#/runs/" + w.Runs["deferred"].String() }, Thing: true},
	{Name: "run, missed", Place: func(w *World) string { return "#/runs/" + w.Runs["missed"].String() }, Thing: true},
	{Name: "run, waiting", Place: func(w *World) string { return "#/runs/" + w.Runs["waiting"].String() }, Thing: true},
	{Name: "jobs", Place: at("#/jobs")},
	{Name: "job", Place: func(w *World) string { return "#/jobs/" + w.Nightly.ID.String() }, Thing: true},
	{Name: "new job", Place: at("#/jobs/new")},
	{Name: "change job", Place: func(w *World) string { return "#/jobs/" + w.Nightly.ID.String() + "/edit" }, Thing: true},
	{Name: "workflows", Place: at("#/workflows")},
	{Name: "workflow", Place: at("#/workflows/etl"), Thing: true},
	{Name: "new workflow", Place: at("#/workflows/new")},
	{Name: "change workflow", Place: at("#/workflows/etl/edit"), Thing: true},
	{Name: "workflow run, fan-out", Place: func(w *World) string { return "#/workflow-runs/" + w.Workflows["fan-out"].String() }, Thing: true},
	{Name: "workflow run, waits", Place: func(w *World) string { return "#/workflow-runs/" + w.Workflows["waits"].String() }, Thing: true},
	{Name: "workflow run, failed", Place: func(w *World) string { return "#/workflow-runs/" + w.Workflows["failed"].String() }, Thing: true},
	{Name: "workflow run, wide", Place: func(w *World) string { return "#/workflow-runs/" + w.Workflows["wide"].String() }, Thing: true},
	{Name: "tasks", Place: at("#/tasks")},
	{Name: "task", Place: at("#/tasks/send-email"), Thing: true},
	{Name: "dead letters", Place: at("#/dead-letters")},
	{Name: "dead letter", Place: func(w *World) string { return "#/dead-letters/" + w.Runs["failed"].String() }, Thing: true},
	{Name: "operations", Place: at("#/operations")},
	{Name: "operation", Place: func(w *World) string { return "#/operations/" + w.Operation }, Thing: true},
	{Name: "import", Place: at("#/import")},
	{Name: "events", Place: at("#/events")},
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
