package client

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func eventCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "event",
		Short: "Publish and list events, on which jobs and workflows run",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(eventPublishCommand(r), eventListCommand(r), eventRunsCommand(r))
	return cmd
}

func eventPublishCommand(r *cli.Remote) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "publish NAME [BODY]",
		Short: "Publish an event: its subscribers run, and steps go on that wait for it",
		Long: "Publish an event. Jobs and workflows run that have it in \"on\", and steps of workflow runs go on that wait for it. BODY is any JSON, at most\n" +
			"64 KiB, or @file, or - for standard input; null if it is absent. It is the payload of the runs.",
		Example: "  carillon event publish file.uploaded '{\"region\": \"eu\", \"path\": \"a.csv\"}'",
		Args:    cobra.RangeArgs(1, 2),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one event (default: drawn)")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		body := json.RawMessage("null")
		if len(args) == 2 {
			var err error
			if body, err = readJSON("BODY", args[1], cmd.InOrStdin()); err != nil {
				return err
			}
		}
		id, err := client.PublishEvent(cmd.Context(), args[0], body, keyOr(key))
		if err != nil {
			return fmt.Errorf("publish event: %w", err)
		}
		return r.Show(cmd, httpapi.EventReceipt{ID: id}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, id)
			return err
		})
	})
	return cmd
}

func eventListCommand(r *cli.Remote) *cobra.Command {
	var from, to string
	var q httpapi.EventQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, in the order in which they were accepted",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "-50m", "accepted at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "10m", "accepted before this `time`")
	cmd.Flags().StringVar(&q.Name, "name", "", "only events of this `name`")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) (err error) {
		if q.From, q.To, err = cli.Window(from, to, time.Now()); err != nil {
			return err
		}
		q.Limit = cli.PageOf(limit)
		head := []string{"ID", "NAME", "ACCEPTED", "BODY"}
		return cli.List(cmd, r, "list events", client.Events(cmd.Context(), q), limit, head, func(e *httpapi.Event) []string {
			return []string{e.ID.String(), e.Name, cli.ShowTime(e.AcceptedAt), string(e.Body)}
		})
	})
	return cmd
}

func eventRunsCommand(r *cli.Remote) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "runs ID",
		Short: "List the runs that an event started",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		id, err := schema.ParseEntryID(args[0])
		if err != nil {
			return cli.Usagef("%s is not the id of an event", args[0])
		}
		return cli.List(cmd, r, "list runs of event", client.RunsOfEvent(cmd.Context(), id, cli.PageOf(limit)), limit, runHead, runRow, waitsColumn)
	})
	return cmd
}
