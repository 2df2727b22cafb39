package httpapi

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/schema"
)

// describeNotifications says in the schemas of rules for notifications what the types of Go do not.
func (s documentWriter) describeNotifications() error {
	say := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Description = description }
	}
	span := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) {
			duration(f)
			f.Description = description
		}
	}
	items := func(most int, description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.MaxItems, f.Description = &most, description }
	}
	kinds := func(f *huma.Schema) {
		f.MinItems = whole(1)
		f.Description = "Of what it tells: failed (a run or a step failed for good), dead (a dead letter was written), missed (but for runs that the on_limit of their own job skips), late (it started more than a second after its time), " +
			"stuck (it waits for other jobs beyond its deadline), paused (a job was paused by its pause_on_failure), recovered (all jobs of a group have succeeded since)"
		for _, kind := range schema.NotificationKinds {
			f.Items.Enum = append(f.Items.Enum, string(kind))
		}
	}
	const glob = ": equal to this, or fits it as a glob, in which * stands for any characters and ? for one"
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for name, of := range schemas { // only runs of notifications are mails: nobody can ask for one
		if strings.HasSuffix(name, "Request") || name == "Task" || name == "Step" {
			delete(of.Properties, "email")
		}
	}
	for _, p := range []struct {
		schema, field string
		say           func(*huma.Schema)
	}{
		{"NotificationRequest", "on", kinds},
		{"NotificationRequest", "match", say("Which runs; absent: all. All that is stated must fit")},
		{"NotificationRequest", "sinks", items(schema.MaxNotificationSinks, "Where messages go")},
		{"NotificationRequest", "group_by", items(8, "What is alike in these is told together: job, task, workflow, kind, error (what errors of a kind share), label.NAME; absent: job and error; empty: all together")},
		{"NotificationRequest", "group_wait", span("From the first of a group to its message; absent: 30s")},
		{"NotificationRequest", "group_interval", span("Between two messages of a group of which more happens, and until it is said that all is well; at least 1m; absent: 5m")},
		{"NotificationRequest", "repeat_interval", span("Between two messages of a group that still stands; at least 1m; absent: 4h")},
		{"NotificationRequest", "send_resolved", say("A message when a run of each job of the group has succeeded since, other than one that repeats another; absent: true. One-off runs cannot succeed again: their groups end without a word")},
		{"NotificationRequest", "mute_time_intervals", items(16, "While one of them lasts nothing is sent; what happens is counted on and told after it")},
		{"NotificationRequest", "description", say("For people")},
		{"NotificationMatch", "job", say("The name of the run's job" + glob)},
		{"NotificationMatch", "task", say("The name of the run's task" + glob)},
		{"NotificationMatch", "workflow", say("The name of the workflow that ran" + glob + ". Steps bear its labels, not its name")},
		{"NotificationMatch", "labels", say("Labels of the run" + glob)},
		{"NotificationMatch", "in_a_row", func(f *huma.Schema) {
			f.Minimum, f.Maximum = number(schema.MinInARow), number(schema.MaxInARow)
			f.Description = "Only of jobs of which at least so many runs in a row have failed: since the last one that succeeded, in the order of their due times. " +
				"Those that were missed, skipped or cancelled do not count, and no run of a one-off job or a step is taken. on may then hold failed, dead and recovered alone. A rule with 3 tells of the third failure and of those after it. Runs are counted as far back as the history of the job is kept, and 60 days at most"
		}},
		{"NotificationMatch", "late_by", span("Of runs that were late only those that started at least so much after their time, from 1s to 24h; on must hold late. Absent: all that started more than 1s after it")},
		{"NotificationSink", "webhook", say("A POST of JSON as Standard Webhooks has it: type, timestamp, data. Signed by signing_key, or the tenant's key default if there is one")},
		{"NotificationSink", "slack", say("An incoming webhook of Slack")},
		{"NotificationSink", "teams", say("A workflow of Microsoft Teams that posts what it receives: an adaptive card")},
		{"NotificationSink", "alertmanager", say("Prometheus Alertmanager: the URL of its /api/v2/alerts. An alert a group")},
		{"NotificationSink", "pagerduty", say("The Events API v2 of PagerDuty: an incident a group, which ends when all jobs of the group have succeeded since. " +
			"Of one-off runs, which cannot succeed again, people end it")},
		{"PagerDutySink", "routing_key_secret", say("Name of the secret that holds the integration's key: 32 characters")},
		{"PagerDutySink", "url", say("Absent: " + schema.DefaultPagerDutyURL + "; https://events.eu.pagerduty.com/v2/enqueue for accounts of the EU region")},
		{"PagerDutySink", "severity", func(f *huma.Schema) {
			words(schema.PagerDutySeverities...)(f)
			f.Description = "Absent: error. A test has info"
		}},
		{"PagerDutySink", "links", items(schema.MaxPagerDutyLinks, "Shown with the incident, such as a runbook")},
		{"PagerDutyLink", "href", say("Absolute, http or https")},
		{"PagerDutyLink", "text", say("What is shown of it")},
		{"NotificationSink", "email", say("A mail, as text and HTML. The mails of a group are a thread. It is accepted for all recipients or for none")},
		{"EmailTarget", "to", items(schema.MaxEmailRecipients, "Addresses, of ASCII: me@example.com, or Me <me@example.com>")},
		{"EmailTarget", "from", say("Who sends it; with server, and not without")},
		{"EmailTarget", "server", say("The mail server; absent: the operator's, if there is one (email.server)")},
		{"EmailServer", "host", say("Its name: its certificate is to be of it. Addresses that tasks may not call are refused when a mail is sent")},
		{"EmailServer", "port", say("Absent: 465 with implicit TLS, else 587")},
		{"EmailServer", "tls", func(f *huma.Schema) {
			words(schema.EmailTLS...)(f)
			f.Description = "starttls (default): a server that does not offer it gets nothing; implicit: from the first byte on; none: everybody on the way can read it"
		}},
		{"EmailServer", "username", say("Absent: the server asks for none")},
		{"EmailServer", "password_secret", say("Name of the secret that holds the password; not with tls none")},
		{"EmailServer", "ca_secret", say("Name of the secret that holds the certificates that the server's one is to come from, as PEM; absent: those of the system")},
		{"SinkCall", "url", say("Absolute, http or https. Addresses that tasks may not call are refused when the message is sent. Either this or url_secret")},
		{"SinkCall", "url_secret", func(f *huma.Schema) {
			f.Pattern, f.Description = namePattern, "Name of the secret that holds the URL, for one that lets everybody post who knows it, as those of Slack and Teams do: no answer shows it. "+
				"What is put as the secret is used from the next message on"
		}},
		{"HTTPTarget", "url_secret", func(f *huma.Schema) {
			f.ReadOnly, f.Description = true, "Of messages of notifications alone: name of the secret that holds the URL; url is empty then"
		}},
		{"SinkCall", "headers", say("As in http.headers of a task")},
		{"SinkCall", "signing_key", say("The tenant's key that signs the call")},
		{"MuteTimeInterval", "times", say("Parts of the day")},
		{"MuteTimeInterval", "weekdays", say("Days of the week, or ranges of them: monday:friday")},
		{"MuteTimeInterval", "days_of_month", say("Days, or ranges: 1:5; below zero they count from the end of the month: -3:-1")},
		{"MuteTimeInterval", "months", say("Months by name or number, or ranges: january:march")},
		{"MuteTimeInterval", "years", say("Years, or ranges: 2026:2028")},
		{"MuteTimeInterval", "location", say("A time zone, such as Europe/Berlin; absent: UTC")},
		{"MuteTimes", "start_time", say("From then on, 00:00 to 24:00")},
		{"MuteTimes", "end_time", say("Up to then, later than start_time")},
	} {
		of := schemas[p.schema]
		if of == nil || of.Properties[p.field] == nil {
			return fmt.Errorf("the OpenAPI document has no %s.%s", p.schema, p.field)
		}
		p.say(of.Properties[p.field])
	}
	return nil
}
