package client

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func tenantCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "tenant",
		Short: "State and show weights, quotas, retention and encryption of tenants",
		Long: "State and show weights, quotas, retention and encryption of tenants. A tenant is there once it is named: one of which nothing was stated has weight 1 and no quotas, and is not listed.\n\n" +
			"Stating them takes a key of the tenant \"system\"; each tenant may see its own.",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(tenantGetCommand(r), tenantSetCommand(r), tenantListCommand(r))
	return cmd
}

func tenantGetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:               "get NAME",
		Short:             "Show weight and quotas of a tenant",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTenants(r),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			t, err := client.Tenant(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("get tenant: %w", err)
			}
			return showTenant(cmd, r, &t)
		}),
	}
}

func tenantSetCommand(r *cli.Remote) *cobra.Command {
	var stated request.TenantRequest
	cmd := &cobra.Command{
		Use:   "set NAME [--weight N] [--durability D] [--retention DAYS] [--audit-creations] [quotas]",
		Short: "State weight and quotas of a tenant; what no flag states stays as it is",
		Long: "State weight and quotas of a tenant. What no flag states stays as it is, and a quota of 0 is none.\n\n" +
			"Quotas that are rates are kept by each node for its share of them, and every node knows of a change within 10 s.\n\n" +
			"A retention holds for runs that are asked for or planned from then on. Runs that are there keep the one that they have, and are not listed beyond the new one. " +
			"So after a raise carillon job backfill --missing takes older ones that have left for missing. " +
			"A run that cannot start for as long as its retention is gone.",
		Example:           "  carillon tenant set billing --weight 3 --runs-per-minute 6000\n  carillon tenant set billing --jobs 0\n  carillon tenant set billing --retention 3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTenants(r),
	}
	flags := cmd.Flags()
	flags.IntVar(&stated.Weight, "weight", 0, "its share where tenants compete, 1 to "+strconv.Itoa(admin.MaxWeight))
	flags.IntVar(&stated.Quotas.Jobs, "jobs", 0, "jobs that can have many runs and have not ended")
	flags.IntVar(&stated.Quotas.RunsPerMinute, "runs-per-minute", 0, "runs that are asked for, or that schedules of jobs start; the latter wait")
	flags.IntVar(&stated.Quotas.Concurrency, "concurrency", 0, "runs under way at once in the whole cluster; others wait")
	flags.IntVar(&stated.Quotas.ImportLinesPerSecond, "import-lines-per-second", 0, "lines of imports; one that is faster is slowed down")
	durability := flags.String("durability", "", "when jobs and imports that state none are acknowledged: home or everywhere; \"\": as the configuration says")
	flags.IntVar(&stated.Retention, "retention", 0, "`days` for which the history of its runs is kept, at most the cluster's own; 0: as long as the cluster keeps it")
	flags.BoolVar(&stated.Audit.Creations, "audit-creations", false, "the audit log has an entry of each one-off job that is created, imports left out")
	flags.BoolVar(&stated.EncryptPayloads, "encrypt-payloads", false, "payloads, outputs and errors are stored encrypted from now on; names, labels, tasks and URLs are not")
	flags.Int64Var(&stated.Quotas.PayloadBytesPerMinute, "payload-bytes-per-minute", 0, "bytes of payload of the runs that are asked for")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Changed
		fields := []struct {
			flag string
			take func(ask *request.TenantRequest)
		}{
			{"weight", func(ask *request.TenantRequest) { ask.Weight = stated.Weight }},
			{"durability", func(ask *request.TenantRequest) { ask.Durability = schema.Durability(*durability) }},
			{"audit-creations", func(ask *request.TenantRequest) { ask.Audit.Creations = stated.Audit.Creations }},
			{"retention", func(ask *request.TenantRequest) { ask.Retention = stated.Retention }},
			{"encrypt-payloads", func(ask *request.TenantRequest) { ask.EncryptPayloads = stated.EncryptPayloads }},
			{"jobs", func(ask *request.TenantRequest) { ask.Quotas.Jobs = stated.Quotas.Jobs }},
			{"runs-per-minute", func(ask *request.TenantRequest) { ask.Quotas.RunsPerMinute = stated.Quotas.RunsPerMinute }},
			{"concurrency", func(ask *request.TenantRequest) { ask.Quotas.Concurrency = stated.Quotas.Concurrency }},
			{"import-lines-per-second", func(ask *request.TenantRequest) {
				ask.Quotas.ImportLinesPerSecond = stated.Quotas.ImportLinesPerSecond
			}},
			{"payload-bytes-per-minute", func(ask *request.TenantRequest) {
				ask.Quotas.PayloadBytesPerMinute = stated.Quotas.PayloadBytesPerMinute
			}},
		}
		changes := 0
		for _, f := range fields {
			if given(f.flag) {
				changes++
			}
		}
		switch {
		case changes == 0:
			return cli.Usagef("state --weight, --durability, --retention, --audit-creations, --encrypt-payloads or a quota")
		case given("retention") && stated.Retention < 0:
			return cli.Usagef("--retention: %d is below 0", stated.Retention)
		case given("weight") && stated.Weight < 1: // the API would take 0 for what is not stated
			return cli.Usagef("--weight: %d is below 1", stated.Weight)
		}
		client, err := r.Client()
		if err != nil {
			return err
		}
		defer client.Close()
		was, tag, err := client.TenantTagged(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("read tenant: %w", err)
		}
		ask := request.TenantRequest{Weight: was.Weight, Quotas: was.Quotas, Durability: was.Durability, Retention: was.Retention, Audit: was.Audit, EncryptPayloads: was.EncryptPayloads}
		for _, f := range fields {
			if given(f.flag) {
				f.take(&ask)
			}
		}
		t, err := client.PutTenantIf(cmd.Context(), args[0], tag, ask)
		if err != nil {
			return fmt.Errorf("set tenant: %w", err)
		}
		return showTenant(cmd, r, &t)
	}
	return cmd
}

func tenantListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tenants of which something was stated; with the key of a tenant, that one",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			tenants, err := cli.All(client.Tenants(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list tenants: %w", err)
			}
			return r.Show(cmd, tenants, func(w io.Writer) error { return writeTenants(w, tenants...) })
		}),
	}
}

func showTenant(cmd *cobra.Command, r *cli.Remote, t *httpapi.Tenant) error {
	return r.Show(cmd, t, func(w io.Writer) error { return writeTenants(w, *t) })
}

func writeTenants(w io.Writer, tenants ...httpapi.Tenant) error {
	rows := [][]string{{"NAME", "WEIGHT", "JOBS", "RUNS/MIN", "AT ONCE", "IMPORT LINES/S", "PAYLOAD BYTES/MIN", "RETENTION", "ENCRYPTED", "UPDATED"}}
	quota := func(n int64) string {
		if n == 0 {
			return "" // no bound
		}
		return strconv.FormatInt(n, 10)
	}
	keptFor := func(days int) string {
		if days == 0 {
			return "" // as the cluster says
		}
		return strconv.Itoa(days) + "d"
	}
	encrypted := func(t *httpapi.Tenant) string {
		if t.EncryptPayloads {
			return "payloads"
		}
		return ""
	}
	for i := range tenants {
		t, q := &tenants[i], &tenants[i].Quotas
		rows = append(rows, []string{
			t.Name, strconv.Itoa(t.Weight), quota(int64(q.Jobs)), quota(int64(q.RunsPerMinute)), quota(int64(q.Concurrency)), quota(int64(q.ImportLinesPerSecond)),
			quota(q.PayloadBytesPerMinute), keptFor(t.Retention), encrypted(t), cli.ShowTime(t.UpdatedAt),
		})
	}
	return cli.Table(w, rows)
}
