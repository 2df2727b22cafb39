package client

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func notificationsCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "notifications",
		Short: "Say of what you are told, and where: e-mail, Slack, Teams, PagerDuty, Alertmanager, webhooks",
		Long: "Say of what you are told, and where. A rule names what happens (failed, dead, missed, late, stuck, paused, recovered), which runs it is for, and sinks.\n" +
			"What is alike is told together, in the words of Prometheus Alertmanager. Each message is a run with the label notification=NAME:\n" +
			"carillon run list --label notification=NAME shows whether it was taken.\n" +
			"All is well again when a run of each job has succeeded since. Runs that repeat others, such as replays of dead letters, do not tell how a job does now.",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(notificationListCommand(r), notificationGetCommand(r), notificationSetCommand(r), notificationSilenceCommand(r), notificationDeleteCommand(r), notificationTestCommand(r))
	return cmd
}

func notificationListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the rules of the tenant",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			all, err := cli.All(client.Notifications(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list notifications: %w", err)
			}
			if r.JSON() {
				return cli.Document(cmd.OutOrStdout(), all)
			}
			rows := [][]string{{"NAME", "STATE", "ON", "SINKS", "GROUP BY", "WAIT", "INTERVAL", "REPEAT", "CHANGED"}}
			for i := range all {
				n := &all[i]
				if n.Fault != "" {
					rows = append(rows, []string{n.Name, "", "", "", "", "", "", "", n.Fault})
					continue
				}
				var on []string
				for _, kind := range n.On {
					on = append(on, string(kind))
				}
				rows = append(rows, []string{
					n.Name, ruleState(n.State), strings.Join(on, ","), strings.Join(sinkNames(n.Sinks), ","), strings.Join(n.GroupBy, ","),
					n.GroupWait.String(), n.GroupInterval.String(), n.RepeatInterval.String(), cli.ShowTime(n.UpdatedAt),
				})
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		}),
	}
}

// ruleState says in words how a rule stands.
func ruleState(st *httpapi.NotificationState) string {
	if st == nil {
		return ""
	}
	words := "quiet"
	if st.Firing > 0 {
		words = fmt.Sprintf("%d firing", st.Firing)
	}
	if st.Muted {
		words += ", muted"
	}
	var failed []string
	for _, d := range st.Deliveries {
		if d.State == schema.StateFailed {
			failed = append(failed, d.Sink)
		}
	}
	if len(failed) > 0 {
		words += ", not taken by " + strings.Join(failed, ", ")
	}
	return words
}

func sinkNames(sinks []request.NotificationSink) (names []string) {
	for _, s := range sinks {
		for _, of := range []struct {
			name string
			is   bool
		}{
			{schema.SinkWebhook, s.Webhook != nil},
			{schema.SinkSlack, s.Slack != nil},
			{schema.SinkTeams, s.Teams != nil},
			{schema.SinkAlertmanager, s.Alertmanager != nil},
			{schema.SinkPagerDuty, s.PagerDuty != nil},
			{schema.SinkEmail, s.Email != nil},
		} {
			if of.is {
				names = append(names, of.name)
			}
		}
	}
	return names
}

func notificationGetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a rule, as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			n, err := client.Notification(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("read notification %s: %w", args[0], err)
			}
			return cli.Document(cmd.OutOrStdout(), n)
		}),
	}
}

func notificationSetCommand(r *cli.Remote) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create or replace a rule, of JSON from the standard input or a file",
		Long: "Create or replace a rule, of JSON from the standard input or a file. What is left out has Alertmanager's default: group_wait 30s,\n" +
			"group_interval 5m and repeat_interval 4h (both at least 1m), send_resolved true. match takes job, task and workflow (a name, or a glob\n" +
			"with * and ?), labels, in_a_row and late_by; what is left out fits all. A rule that is set again\n" +
			"with another on, match or group_by begins anew. At mute_time_intervals nothing is sent; a night is two parts of days.\n" +
			"failed tells of each run. With \"match\": {\"in_a_row\": 3} a rule tells of jobs of which three runs in a row have failed: of the third and\n" +
			"those after it; on may then hold failed, dead and recovered alone. With paused a rule tells that a job was paused by its --pause-after.\n" +
			"late tells of runs that started more than a second after their time; with \"match\": {\"late_by\": \"5m\"}, at least five minutes after it.\n" +
			"missed does not tell of runs that the --on-limit skip of their own job left out.\n" +
			"The URL of an incoming webhook lets everybody post who has it: keep it as a secret and name that in url_secret, instead of url.\n" +
			"A url is shown to whoever may change the rule, since a change starts from what there is.",
		Example: "  carillon secret put slack-url < url.txt\n" +
			"  carillon notifications set billing <<'END'\n" +
			"  {\"on\": [\"failed\", \"missed\"], \"match\": {\"labels\": {\"team\": \"billing\"}},\n" +
			"   \"sinks\": [{\"slack\": {\"url_secret\": \"slack-url\"}}]}\n" +
			"  END\n" +
			"  carillon notifications test billing\n" +
			"  carillon notifications set nights-off <<'END'\n" +
			"  {\"on\": [\"dead\"], \"sinks\": [{\"email\": {\"to\": [\"ops@example.com\"]}}],\n" +
			"   \"mute_time_intervals\": [{\"location\": \"Europe/Berlin\",\n" +
			"     \"times\": [{\"start_time\": \"22:00\", \"end_time\": \"24:00\"}, {\"start_time\": \"00:00\", \"end_time\": \"06:00\"}]}]}\n" +
			"  END",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&file, "file", "", "read the rule from this `file` instead of the standard input")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		in := cmd.InOrStdin()
		if file != "" {
			f, err := os.Open(file) // #nosec G304 -- whoever runs the command says so
			if err != nil {
				return fmt.Errorf("read notification: %w", err)
			}
			defer f.Close() //nolint:errcheck // it was only read
			in = f
		}
		text, err := io.ReadAll(io.LimitReader(in, request.MaxBody+1))
		if err != nil {
			return fmt.Errorf("read notification: %w", err)
		}
		if !json.Valid(text) {
			return cli.Usagef("the rule is not JSON")
		}
		n, err := client.PutNotification(cmd.Context(), args[0], text)
		if err != nil {
			return fmt.Errorf("set notification %s: %w", args[0], err)
		}
		if r.JSON() {
			return cli.Document(cmd.OutOrStdout(), n)
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s of the tenant %s tells %s of what happens from now on\n", n.Name, n.Tenant, strings.Join(sinkNames(n.Sinks), ", "))
		return err
	})
	return cmd
}

func notificationDeleteCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a rule: within seconds nothing is told by it",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.DeleteNotification(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("delete notification %s: %w", args[0], err)
			}
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), args[0], "is deleted")
			return err
		}),
	}
}

func notificationTestCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Send a test message to each sink of a rule, and print the runs that send it",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			tested, err := client.TestNotification(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("test notification %s: %w", args[0], err)
			}
			if r.JSON() {
				return cli.Document(cmd.OutOrStdout(), tested)
			}
			for _, id := range tested.Runs {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), id); err != nil {
					return err
				}
			}
			cli.Advise(cmd, "carillon run get RUN says whether the sink took it.")
			return nil
		}),
	}
}
