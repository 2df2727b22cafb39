// Package client holds the commands of carillon that ask the API: one file a command, or a group of
// them. A command reads its flags, makes one call or one list, and shows the answer as a table or
// as JSON. What only the API can judge is left to the API.
//
//	job*.go, apply.go, crontab.go, schedule.go   jobs, what starts them, and jobs from files
//	workflow*.go, steps.go                       workflows, and the steps of their runs
//	run*.go, deadletter.go, operation*.go        runs, dead letters, operations on all that matches
//	logs.go                                      what runs logged, across runs
//	task.go, target.go                           tasks and the targets that they call
//	auth.go                                      who makes a call; functions of AWS Lambda
//	tenant.go, key.go, signing.go, secret.go     tenants, API keys, signing keys, secrets
//	audit.go, stats.go, states.go, history.go     who changed what; what the cluster did; the runs of a day
//	cluster.go, whoami.go                        how the cluster stands; whose key it is
//	show.go                                      how jobs and runs are shown
//	completion.go                                names that a shell completes
//
// `carillon key create --bootstrap` is the exception: it writes the first key to Cassandra itself.
package client

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		jobCommand(), workflowCommand(), taskCommand(), runCommand(), logsCommand(), scheduleCommand(), operationCommand(), deadLetterCommand(),
		keyCommand(), signingCommand(), secretCommand(), notificationsCommand(), calendarCommand(), eventCommand(), targetCommand(), tenantCommand(), auditCommand(), statsCommand(), historyCommand(), clusterCommand(), whoamiCommand(),
	}
}
