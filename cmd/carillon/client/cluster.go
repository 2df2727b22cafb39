package client

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

// clusterWithin is how long the answer of a node is waited for. It asks the others for a second.
var clusterWithin = 15 * time.Second

// farBehind is how far a shard is behind that is worth a line: at a steady load it is less.
const farBehind = 3 * time.Minute

func clusterCommand() *cobra.Command {
	r := &cli.Remote{}
	var shards bool
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the members, whether each is ready, and how the store and the queue stand",
		Long: "Show the members of the cluster, whether each is ready by its own word, its slots and version, how far the shards of each have come, and\n" +
			"which hosts of Cassandra and NATS answer. A member that does not answer within a second is not ready. It takes a key of the tenant \"system\".",
		Example: "  carillon cluster\n  carillon cluster --shards\n  carillon cluster -o json",
		Args:    cobra.NoArgs,
	}
	r.AddFlags(cmd)
	cmd.Flags().BoolVar(&shards, "shards", false, "show every shard, its owner, and how far it has come")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), clusterWithin)
		defer cancel()
		c, err := client.Cluster(ctx)
		switch {
		case ctx.Err() != nil && cmd.Context().Err() == nil:
			return fmt.Errorf("look at the cluster: no answer within %s: the node is frozen, or cut off; name another one with --api", clusterWithin)
		case err != nil:
			return fmt.Errorf("look at the cluster: %w", err)
		}
		return r.Show(cmd, c, func(w io.Writer) error {
			if shards {
				return writeShards(w, c.Shards)
			}
			return writeCluster(w, &c, time.Now())
		})
	})
	return cmd
}

// writeCluster shows members, store and queue.
func writeCluster(w io.Writer, c *httpapi.Cluster, now time.Time) error {
	owned, behind := make(map[string]int), make(map[string]float64)
	for i := range c.Shards {
		s := &c.Shards[i]
		owned[s.Owner]++
		behind[s.Owner] = max(behind[s.Owner], s.BehindSeconds)
	}
	rows := [][]string{{"MEMBER", "READY", "ROLES", "SLOTS", "SHARDS", "BEHIND", "UP", "VERSION"}}
	var notes []string
	healthy := slices.ContainsFunc(c.Members, func(m httpapi.Member) bool { return !m.Unhealthy && slices.Contains(m.Roles, "dispatcher") })
	for i := range c.Members {
		m := &c.Members[i]
		ready := "yes"
		switch {
		case isUnasked(m, c):
			ready = "?"
		case !m.Ready:
			ready = "NO"
		}
		up, slots := "", ""
		if !m.StartedAt.IsZero() {
			up = showSpan(now.Sub(m.StartedAt.Time).Truncate(time.Second))
		}
		if s := m.Slots; s != nil {
			slots = fmt.Sprintf("%d of %d", s.Used, s.Total)
		}
		shards, late := "", ""
		if n := owned[m.Name]; n > 0 {
			shards, late = strconv.Itoa(n), showBehind(behind[m.Name])
		}
		rows = append(rows, []string{m.Name, ready, strings.Join(m.Roles, ","), slots, shards, late, up, m.Version})
		for _, check := range m.Checks {
			message := strings.Join(strings.Fields(check.Message), " ") // of older versions it may have lines
			switch {
			case message == "":
			case check.Name == "answer":
				notes = append(notes, m.Name+": "+message)
			default:
				notes = append(notes, fmt.Sprintf("%s: %s: %s", m.Name, check.Name, message))
			}
		}
		switch {
		case m.Unhealthy && healthy:
			notes = append(notes, m.Name+": it dispatches nothing: others have its shards")
		case m.Unhealthy:
			notes = append(notes, m.Name+": it dispatches nothing, and keeps its shards: no dispatcher is healthy")
		}
	}
	for _, l := range c.Lost {
		notes = append(notes, fmt.Sprintf("%s: LOST: it went without a word %s ago and is not back", l.Name, showSpan(now.Sub(l.Since.Time).Truncate(time.Second))))
	}
	if n := owned[""]; n > 0 {
		notes = append(notes, fmt.Sprintf("shards without an owner: %d", n))
	}
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	notes = append(notes, healthNotes("store", &c.Store)...)
	notes = append(notes, healthNotes("queue", &c.Queue.ClusterHealth)...)
	if c.Queue.Waiting != nil {
		notes = append(notes, fmt.Sprintf("queue: %d messages wait for an executor", *c.Queue.Waiting))
	}
	notes = append(notes, waitNotes(c, now)...)
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(w, cli.Clean(note)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// isUnasked reports whether nothing is known of a member because the node that was asked does not
// reach NATS, by which it would ask.
func isUnasked(m *httpapi.Member, c *httpapi.Cluster) bool {
	return !c.Queue.OK && len(m.Checks) == 1 && m.Checks[0].Name == "answer" && !m.Checks[0].OK
}

// waitNotes says for what runs wait that are due, a line each reason.
func waitNotes(c *httpapi.Cluster, now time.Time) (notes []string) {
	sums := make(map[string]httpapi.WaitingRuns)
	for i := range c.Members {
		for _, w := range c.Members[i].Waiting {
			sum, known := sums[w.Reason]
			if sum.Runs, sum.More = sum.Runs+w.Runs, sum.More || w.More; !known || w.Oldest.Before(sum.Oldest.Time) {
				sum.Oldest = w.Oldest
			}
			sums[w.Reason] = sum
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(sums)) {
		sum, why := sums[reason], reason
		if reason == "breaker" {
			why = "breaker, their target failed again and again (carillon target list)"
		}
		runs := strconv.FormatInt(sum.Runs, 10)
		if sum.More {
			runs += " or more"
		}
		notes = append(notes, fmt.Sprintf("runs that are due and wait: %s: %s, the oldest for %s", why, runs, showSpan(max(now.Sub(sum.Oldest.Time), 0).Truncate(time.Second))))
	}
	return notes
}

// healthNotes says how the servers stand that the cluster shares.
func healthNotes(name string, h *httpapi.ClusterHealth) (notes []string) {
	up := 0
	for _, host := range h.Hosts {
		if host.Up {
			up++
			continue
		}
		notes = append(notes, fmt.Sprintf("%s: %s does not answer: %s", name, host.Name, host.Message))
	}
	switch {
	case !h.OK:
		notes = append(notes, name+": NOT WELL: "+h.Message)
	case len(h.Hosts) > 0:
		notes = append(notes, fmt.Sprintf("%s: %d of %d hosts answer", name, up, len(h.Hosts)))
	default:
		notes = append(notes, name+": well")
	}
	return notes
}

// showBehind shows how far the slowest shard of an owner is behind, if that is worth a word.
func showBehind(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Truncate(time.Second)
	if d <= farBehind {
		return "no"
	}
	return showSpan(d)
}

// writeShards shows shards as a table.
func writeShards(w io.Writer, shards []httpapi.Shard) error {
	rows := [][]string{{"SHARD", "OWNER", "EPOCH", "DISPATCHED", "SETTLED", "BEHIND"}}
	for i := range shards {
		s := &shards[i]
		rows = append(rows, []string{
			fmt.Sprint(s.Shard), s.Owner, strconv.FormatInt(s.Epoch, 10), cli.ShowTime(s.Dispatched), cli.ShowTime(s.Settled),
			time.Duration(s.BehindSeconds * float64(time.Second)).Truncate(time.Second).String(),
		})
	}
	return cli.Table(w, rows)
}
