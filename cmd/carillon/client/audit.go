package client

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func auditCommand() *cobra.Command {
	r := &cli.Remote{}
	var from, to string
	var q httpapi.AuditQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what",
		Long: "Show who changed what in the tenant, the newest first: tasks, recurring jobs, keys, quotas and operations, runs that were cancelled, " +
			"changed or repeated, and each import as one. An entry shows within about half a second of the answer to the change, and later while the store is in trouble. A one-off job that is made shows in `carillon run list` instead.\n\n" +
			"--from and --to are times (RFC 3339) or spans from now. With -o json there is one entry a line, with the object before and after.",
		Example: "  carillon audit --object task/send-email\n  carillon audit --from -720h --actor deploy --object job/ -o json",
		Args:    cobra.NoArgs,
	}
	r.AddFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "-168h", "changed at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "1m", "changed before this `time`")
	cmd.Flags().StringVar(&q.Actor, "actor", "", "only what the key of this `name` changed")
	cmd.Flags().StringVar(&q.Object, "object", "", "only changes of this `object`, such as task/send-email; task/ means all tasks")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) (err error) {
		if q.From, q.To, err = cli.Window(from, to, time.Now()); err != nil {
			return err
		}
		q.Limit = cli.PageOf(limit)
		return cli.List(cmd, r, "list audit", client.Audit(cmd.Context(), q), limit, auditHead, auditRow)
	})
	return cmd
}

// auditHead and auditRow make a table of the audit log.
var auditHead = []string{"AT", "ACTOR", "ACTION", "OBJECT", "CHANGED", "NOTE"}

func auditRow(e *httpapi.AuditEntry) []string {
	return []string{cli.ShowTime(e.At), e.Actor, e.Action, e.Object, cli.Head(strings.Join(changedFields(e), ","), 60), cli.Head(e.Note, 100)}
}

// changedFields returns the names of the fields in which an object differs from what it was before,
// in order; none if it was not there before, or is not there any more.
func changedFields(e *httpapi.AuditEntry) []string {
	var before, after map[string]json.RawMessage
	if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil || before == nil || after == nil {
		return nil
	}
	names := make(map[string]bool)
	for _, one := range []map[string]json.RawMessage{before, after} {
		for name := range one {
			if !bytes.Equal(before[name], after[name]) && !slices.Contains(alwaysChanged, name) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// alwaysChanged are fields that differ after each change.
var alwaysChanged = []string{"updated_at", "generation"}
