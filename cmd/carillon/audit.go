package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
)

func auditCommand() *cobra.Command {
	r := &remote{}
	var from, to string
	var q httpapi.AuditQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what",
		Long: "Show who changed what in the tenant, the newest first: tasks, recurring jobs, keys, quotas and operations, runs that were cancelled, " +
			"changed or repeated, and each import as one. A one-off job that is made shows in `carillon run list` instead.\n\n" +
			"--from and --to are times (RFC 3339) or spans from now. With -o json there is one entry a line, with the object before and after.",
		Example: "  carillon audit --object task/send-email\n  carillon audit --from -720h --actor deploy --object job/ -o json",
		Args:    cobra.NoArgs,
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&from, "from", "-168h", "changed at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "1m", "changed before this `time`")
	cmd.Flags().StringVar(&q.Actor, "actor", "", "only what the key of this `name` changed")
	cmd.Flags().StringVar(&q.Object, "object", "", "only changes of this `object`, such as task/send-email; task/ means all tasks")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		client, err := r.client()
		if err != nil {
			return err
		}
		defer client.Close()
		if q.From, q.To, err = window(from, to, time.Now()); err != nil {
			return err
		}
		if limit < 0 {
			return usagef("--limit: %d is negative", limit)
		}
		return listAudit(cmd, r, client, q, limit)
	}
	return cmd
}

// listAudit shows the entries of q, at most limit of them unless that is 0, and says on stderr if there are more.
func listAudit(cmd *cobra.Command, r *remote, client *httpapi.Client, q httpapi.AuditQuery, limit int) error {
	q.Limit = pageOf(limit)
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	rows := [][]string{{"AT", "ACTOR", "ACTION", "OBJECT", "NOTE"}}
	shown, more := 0, false
	for e, err := range client.Audit(cmd.Context(), q) {
		if err != nil {
			return fmt.Errorf("list audit: %w", err)
		}
		if more = limit > 0 && shown == limit; more {
			break
		}
		shown++
		if r.json() {
			if err := enc.Encode(e); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			continue
		}
		rows = append(rows, []string{showTime(e.At), e.Actor, e.Action, e.Object, head(e.Note, 100)})
	}
	if !r.json() {
		if err := table(cmd.OutOrStdout(), rows); err != nil {
			return err
		}
	}
	if more {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "There are more: --limit %d shows only the first.\n", limit) // advice
	}
	return nil
}
