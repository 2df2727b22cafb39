package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func keyCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke API keys",
		Long: "Make, list and revoke API keys. A key names its tenant and its role; commands take theirs from $CARILLON_KEY.\n\n" +
			"Roles: a viewer reads; an operator also makes and changes jobs, runs and tasks; an admin also makes keys and reads the audit log.\n" +
			"A key of the tenant \"system\" may speak for any tenant (--tenant), state quotas, and see the whole cluster.",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(keyCreateCommand(r), keyListCommand(r), keyRevokeCommand(r))
	return cmd
}

func keyCreateCommand(r *cli.Remote) *cobra.Command {
	var role, expires, file string
	var bootstrap bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an API key and show it, this once",
		Long: "Make an API key and show it, this once: it is stored nowhere. The key alone is written to the standard output.\n\n" +
			"With --bootstrap it is written to Cassandra directly, as the configuration of a node says: so the first key of a cluster is made.\n" +
			"It is then of the tenant \"system\" and an admin, unless --tenant and --role say otherwise.",
		Example: "  export CARILLON_KEY=$(carillon key create admin --bootstrap --config carillon.yaml)\n" +
			"  carillon key create deploy --tenant billing --role operator --expires 2160h",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	cmd.Flags().StringVar(&expires, "expires", "", "good until this `time`, or for this span; default: for ever")
	cmd.Flags().BoolVar(&bootstrap, "bootstrap", false, "write to Cassandra, without an API and a key")
	cmd.Flags().StringVar(&file, "config", "", "with --bootstrap: configuration `file` (YAML) of a node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ask := request.KeyRequest{Name: args[0], Role: schema.Role(role)}
		if expires != "" {
			at, err := cli.Instant("expires", expires, time.Now())
			if err != nil {
				return err
			}
			ask.ExpiresAt = at
		}
		switch {
		case bootstrap:
			return bootstrapKey(cmd, r, file, ask)
		case file != "":
			return cli.Usagef("--config is for --bootstrap; --api says where the API is")
		case role == "":
			return cli.Usagef("--role must be viewer, operator or admin")
		}
		client, err := r.Client()
		if err != nil {
			return err
		}
		defer client.Close()
		made, err := client.CreateKey(cmd.Context(), ask)
		if err != nil {
			return fmt.Errorf("create key: %w", err)
		}
		if c := r.ClientConfig(); c.Key == "" && c.TLS.Cert == "" { // nothing said who we are, and we were answered
			cli.Advise(cmd, "This API asks for no keys (api.auth): who sends none may do anything. A request with this one may do what the key may.")
		}
		return showKey(cmd, r, made)
	}
	return cmd
}

// showKey writes only the key to the standard output, and a description to the error output.
func showKey(cmd *cobra.Command, r *cli.Remote, made httpapi.NewAPIKey) error {
	if r.JSON() {
		return cli.Document(cmd.OutOrStdout(), made)
	}
	until := ""
	if !made.ExpiresAt.IsZero() {
		until = ", good until " + cli.ShowTime(made.ExpiresAt)
	}
	cli.Advise(cmd, "%s of the tenant %s is made (%s)%s. It is not shown again:", made.Name, made.Tenant, made.Role, until)
	_, err := fmt.Fprintln(cmd.OutOrStdout(), made.Key)
	return err
}

// bootstrapKey makes a key in the Cassandra that a node's configuration names.
func bootstrapKey(cmd *cobra.Command, r *cli.Remote, file string, ask request.KeyRequest) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if len(r.URLs) > 0 {
		return cli.Usagef("--api and --bootstrap: no API is asked")
	}
	store, err := cli.OpenCassandra(cmd, file)
	if err != nil {
		return err
	}
	made, err := FirstKey(cmd.Context(), store, r.Tenant, ask)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	return showKey(cmd, r, made)
}

// KeyStore is the part of a store that FirstKey needs.
type KeyStore interface {
	schema.APIKeyStore
	schema.AuditStore
}

// noSignals sends nothing: nodes find a new key when it is first used.
type noSignals struct{}

func (noSignals) Signal(string, []byte) {}

// FirstKey makes a key of the tenant, of the system's by default, of an admin by default, and
// writes an audit entry. The error is cli.Usagef's where what is asked for cannot be.
func FirstKey(ctx context.Context, store KeyStore, tenant string, ask request.KeyRequest) (httpapi.NewAPIKey, error) {
	if tenant == "" {
		tenant = schema.SystemTenant
	}
	if ask.Role == "" {
		ask.Role = schema.Admin
	}
	now := time.Now()
	for what, name := range map[string]string{"--tenant": tenant, "NAME": ask.Name} {
		if fault := bucketer.NameFault(name); fault != "" {
			return httpapi.NewAPIKey{}, cli.Usagef("%s: %q %s", what, name, fault)
		}
	}
	switch {
	case !ask.Role.Covers(schema.Viewer):
		return httpapi.NewAPIKey{}, cli.Usagef("--role: %q is not viewer, operator or admin", ask.Role)
	case !ask.ExpiresAt.IsZero() && !ask.ExpiresAt.After(now):
		return httpapi.NewAPIKey{}, cli.Usagef("--expires must be in the future")
	}
	secret, k, err := admin.NewKeys(store, noSignals{}, time.Now, slog.New(slog.DiscardHandler)).Create(ctx, schema.APIKey{
		Tenant: tenant, Name: ask.Name, Role: ask.Role, CreatedBy: "bootstrap", ExpiresAt: ask.ExpiresAt.UTC().Truncate(time.Millisecond),
	})
	switch {
	case errors.Is(err, schema.ErrConflict):
		return httpapi.NewAPIKey{}, fmt.Errorf("the tenant %s has a key %s: take another name, or revoke it", tenant, ask.Name)
	case err != nil:
		return httpapi.NewAPIKey{}, err
	}
	err = store.PutAudit(ctx, []schema.AuditEntry{{
		ID: schema.MakeAuditID(now, 0, rand.Uint64()), Tenant: tenant, Actor: "bootstrap", Action: "create", Object: "key/" + ask.Name, // #nosec G404 -- it tells nodes apart
		Note: string(ask.Role),
	}})
	if err != nil {
		return httpapi.NewAPIKey{}, fmt.Errorf("the key %s was made and is not shown, since that could not be noted: revoke it: %w", ask.Name, err)
	}
	return httpapi.NewAPIKey{
		Key: secret,
		APIKey: httpapi.APIKey{
			Name: k.Name, Tenant: k.Tenant, Role: k.Role, CreatedAt: httpapi.Time{Time: k.CreatedAt}, CreatedBy: k.CreatedBy, ExpiresAt: httpapi.Time{Time: k.ExpiresAt},
		},
	}, nil
}

func keyListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the API keys of the tenant",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			keys, err := cli.All(client.Keys(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list keys: %w", err)
			}
			return r.Show(cmd, keys, func(w io.Writer) error { return writeKeys(w, keys) })
		}),
	}
}

func writeKeys(w io.Writer, keys []httpapi.APIKey) error {
	rows := [][]string{{"NAME", "TENANT", "ROLE", "CREATED", "BY", "EXPIRES", "LAST USED"}}
	for _, k := range keys {
		rows = append(rows, []string{k.Name, k.Tenant, string(k.Role), cli.ShowTime(k.CreatedAt), k.CreatedBy, cli.ShowTime(k.ExpiresAt), cli.ShowTime(k.LastUsedAt)})
	}
	return cli.Table(w, rows)
}

func keyRevokeCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke an API key: within 10 s no node takes it",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.RevokeKey(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("revoke key: %w", err)
			}
			return nil
		}),
	}
}
