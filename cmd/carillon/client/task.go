package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func taskCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "task",
		Short: "Make, show, change and delete tasks: named ways to run something, with their limits",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(taskSetCommand(r), taskGetCommand(r), taskListCommand(r), taskDeleteCommand(r))
	return cmd
}

// taskFlags are the flags of a task.
type taskFlags struct {
	url, method, subject, command string
	headers, args, requires       []string
	timeout                       time.Duration
	preemptible                   bool
	maxConcurrent                 int
	retry                         retryFlags
	guarantee, rate, schema, text string
	auth                          authFlags
}

func taskSetCommand(r *cli.Remote) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use:   "set NAME [--url URL | --subject SUBJECT | --command NAME | --function NAME | --message JSON] [flags]",
		Short: "Make a task, or change what is stated of one that is there",
		Long: "Make a task, or change what is stated of one that is there: what no flag states stays as it is.\n\n" +
			"A rate bounds how many runs of the task start in a second (s), a minute (m) or an hour (h), in the whole cluster; those beyond wait.\n" +
			"Starts are spread evenly: 100/m is about one each 600 ms, and not a hundred at once.\n" +
			"So do runs beyond as many as may be under way at once, in the whole cluster (--max-concurrent). A payload schema is\n" +
			"a JSON Schema 2020-12 that payloads must fit when jobs are written.",
		Example: "  carillon task set send-email --subject work.email --payload-schema @email.schema.json\n" +
			"  carillon task set orders --url https://api.example.com/v2/orders --rate 100/s\n" +
			"  carillon task set orders --rate 10/m --max-concurrent 5\n" +
			"  carillon task set orders --auth '{\"bearer\": {\"secret\": \"orders-token\"}}'\n" +
			"  carillon task set resize --function resize --aws-region eu-central-1 --credentials aws-resize --async\n" +
			"  carillon task set train --url https://ml.example.com/train --requires gpu=true --requires zone=a\n" +
			"  carillon task set orders --rate none --max-concurrent 0 --payload-schema none",
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "`URL` to call")
	flags.StringVar(&f.method, "method", "", "method of the call (default POST)")
	flags.StringArrayVar(&f.headers, "header", nil, "`name:value` of the call; may be repeated")
	flags.StringVar(&f.subject, "subject", "", "NATS `subject` to ask")
	flags.StringVar(&f.command, "command", "", "`name` of a command of the operator's allow list")
	flags.StringArrayVar(&f.args, "arg", nil, "argument of the command; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 0, "of one attempt")
	f.retry.flags(cmd, "")
	flags.StringVar(&f.guarantee, "guarantee", "", "at_least_once, at_most_once or effectively_once")
	flags.StringArrayVar(&f.requires, "requires", nil, "`name=value` of a label that the executor must have; may be repeated; none")
	flags.BoolVar(&f.preemptible, "preemptible", false, "critical runs may take the slots of its runs of low priority, which start again")
	flags.StringVar(&f.rate, "rate", "", "starts at most, such as `100/s`, 10/m or 1000/h; none")
	flags.IntVar(&f.maxConcurrent, "max-concurrent", 0, "runs under way at once at most; 0 = any number")
	flags.StringVar(&f.schema, "payload-schema", "", "what payloads must fit: `JSON`, @file, - for standard input, or none")
	flags.StringVar(&f.text, "description", "", "what it does")
	f.auth.flags(cmd)
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		var task request.TaskRequest
		was, tag, err := client.TaskTagged(cmd.Context(), args[0])
		switch {
		case err == nil:
			task = request.TaskRequest{Work: was.Work, Rate: was.Rate, MaxConcurrent: was.MaxConcurrent, PayloadSchema: was.PayloadSchema, Description: was.Description}
		case !isNotFound(err):
			return fmt.Errorf("set task: %w", err)
		}
		if err := f.state(cmd, &task); err != nil {
			return err
		}
		put := client.PutTask
		if tag != "" { // somebody else may change it meanwhile
			put = func(ctx context.Context, name string, task request.TaskRequest) (httpapi.Task, error) {
				return client.PutTaskIf(ctx, name, tag, task)
			}
		}
		made, err := put(cmd.Context(), args[0], task)
		if err != nil {
			return fmt.Errorf("set task: %w", err)
		}
		return showTasks(r, cmd, made, made)
	})
	return cmd
}

func isNotFound(err error) bool {
	var p *httpapi.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// state changes in the task what the flags state.
func (f *taskFlags) state(cmd *cobra.Command, task *request.TaskRequest) error {
	given := cmd.Flags().Changed
	targets := 0
	for _, flag := range []string{"url", "subject", "command", "function", "message"} {
		if given(flag) {
			targets++
		}
	}
	switch {
	case targets > 1:
		return cli.Usagef("state at most one of --url, --subject, --command, --function and --message")
	case given("rate") && f.rate == "": // an unset shell variable must not lift a limit
		return cli.Usagef("--rate: state one, such as 100/s, or none")
	case given("max-concurrent") && f.maxConcurrent < 0:
		return cli.Usagef("--max-concurrent: %d is below 0, which means any number", f.maxConcurrent)
	}
	// The other fields of a target of the same kind, such as its method, stay.
	switch {
	case given("url"):
		task.Work = withTarget(task.Work, schema.Work{HTTP: cmp.Or(task.HTTP, new(schema.HTTPTarget))})
		task.HTTP.URL = f.url
	case given("subject"):
		task.Work = withTarget(task.Work, schema.Work{NATS: cmp.Or(task.NATS, new(schema.NATSTarget))})
		task.NATS.Subject = f.subject
	case given("command"):
		task.Work = withTarget(task.Work, schema.Work{Script: cmp.Or(task.Script, new(schema.ScriptTarget))})
		task.Script.Command = f.command
	case given("function"):
		task.Work = withTarget(task.Work, schema.Work{Lambda: cmp.Or(task.Lambda, new(schema.LambdaTarget))})
		task.Lambda.Function = f.auth.function
	case given("message"):
		sends, err := f.auth.sends(cmd)
		if err != nil {
			return err
		}
		task.Work = withTarget(task.Work, sends)
	}
	switch {
	case task.HTTP == nil && (given("method") || given("header")):
		return cli.Usagef("--method and --header go with a task that calls a URL")
	case task.Script == nil && given("arg"):
		return cli.Usagef("--arg goes with a task that runs a command")
	}
	if given("method") {
		task.HTTP.Method = f.method
	}
	if given("header") {
		var err error
		if task.HTTP.Headers, err = pairs("header", f.headers, ":"); err != nil {
			return err
		}
	}
	if given("arg") {
		task.Script.Args = f.args
	}
	if err := f.auth.state(cmd, &task.Work); err != nil {
		return err
	}
	if given("timeout") {
		task.Timeout = schema.Duration(f.timeout)
	}
	if given("guarantee") {
		task.Guarantee = schema.Guarantee(f.guarantee)
		if task.Guarantee == schema.AtMostOnce && task.Retry != nil {
			task.Retry.MaxAttempts = 1
		}
	}
	if given("preemptible") {
		task.Preemptible = f.preemptible
	}
	if given("requires") {
		if task.Requires = nil; !slices.Equal(f.requires, []string{"none"}) {
			labels, err := schema.ParseLabels(strings.Join(f.requires, ","))
			if err != nil {
				return cli.Usagef("--requires: %v", err)
			}
			task.Requires = labels
		}
	}
	var err error
	if task.Retry, err = f.retry.state(cmd, task.Retry); err != nil {
		return err
	}
	if given("rate") {
		if task.Rate = f.rate; f.rate == "none" {
			task.Rate = ""
		}
	}
	if given("max-concurrent") {
		task.MaxConcurrent = f.maxConcurrent
	}
	if given("description") {
		task.Description = f.text
	}
	if given("payload-schema") {
		if task.PayloadSchema = nil; f.schema != "none" {
			var err error
			if task.PayloadSchema, err = readJSON("--payload-schema", f.schema, cmd.InOrStdin()); err != nil {
				return err
			}
		}
	}
	return nil
}

// withTarget returns w with another target, and its own limits.
func withTarget(w, target schema.Work) schema.Work {
	target.Timeout, target.Retry, target.Guarantee, target.Requires, target.Preemptible = w.Timeout, w.Retry, w.Guarantee, w.Requires, w.Preemptible
	return target
}

// showTasks writes v as JSON, or the tasks as a table.
func showTasks(r *cli.Remote, cmd *cobra.Command, v any, tasks ...httpapi.Task) error {
	if r.JSON() {
		return cli.Document(cmd.OutOrStdout(), v)
	}
	rows := [][]string{{"NAME", "TARGET", "TIMEOUT", "ATTEMPTS", "GUARANTEE", "RATE", "AT ONCE", "PAYLOAD SCHEMA", "UPDATED"}}
	for _, t := range tasks {
		target, attempts, atOnce, held := "", "", "", "no"
		switch {
		case t.HTTP != nil:
			target = t.HTTP.Method + " " + t.HTTP.URL
		case t.NATS != nil:
			target = "nats " + t.NATS.Subject
		case t.Script != nil:
			target = "command " + t.Script.Command
		case t.Lambda != nil:
			target = "lambda " + t.Lambda.Function
		default:
			if kind, to := t.Message(); kind != "" {
				target = kind + " " + to
			}
		}
		if t.Retry != nil {
			attempts = fmt.Sprint(t.Retry.MaxAttempts)
		}
		if t.MaxConcurrent > 0 {
			atOnce = fmt.Sprint(t.MaxConcurrent)
		}
		if len(t.PayloadSchema) > 0 {
			held = "yes"
		}
		rows = append(rows, []string{t.Name, target, t.Timeout.String(), attempts, string(t.Guarantee), t.Rate, atOnce, held, cli.ShowTime(t.UpdatedAt)})
	}
	return cli.Table(cmd.OutOrStdout(), rows)
}

func taskGetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a task",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			task, err := client.Task(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("get task: %w", err)
			}
			return showTasks(r, cmd, task, task)
		}),
	}
}

func taskListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tasks of the tenant",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			tasks, err := cli.All(client.Tasks(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list tasks: %w", err)
			}
			return showTasks(r, cmd, tasks, tasks...)
		}),
	}
}

func taskDeleteCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a task: its runs to come will fail",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.DeleteTask(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("delete task: %w", err)
			}
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), args[0], "is deleted")
			return err
		}),
	}
}
