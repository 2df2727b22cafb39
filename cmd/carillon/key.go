package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

func keyCommand() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke API keys",
		Long: "Make, list and revoke API keys. A key names its tenant and its role; commands take theirs from $CARILLON_KEY.\n\n" +
			"Roles: a viewer reads; an operator also makes and changes jobs, runs and tasks; an admin also makes keys and reads the audit log.\n" +
			"A key of the tenant \"system\" may speak for any tenant (--tenant), state quotas, and see the whole cluster.",
	})
	r.flags(cmd)
	cmd.AddCommand(keyCreateCommand(r), keyListCommand(r), keyRevokeCommand(r))
	return cmd
}

func keyCreateCommand(r *remote) *cobra.Command {
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
			at, err := instant("expires", expires, time.Now())
			if err != nil {
				return err
			}
			ask.ExpiresAt = at
		}
		switch {
		case bootstrap:
			return bootstrapKey(cmd, r, file, ask)
		case file != "":
			return usagef("--config is for --bootstrap; --api says where the API is")
		case role == "":
			return usagef("--role must be viewer, operator or admin")
		}
		client, err := r.client()
		if err != nil {
			return err
		}
		defer client.Close()
		made, err := client.CreateKey(cmd.Context(), ask)
		if err != nil {
			return fmt.Errorf("create key: %w", err)
		}
		return showKey(cmd, r, made)
	}
	return cmd
}

// showKey writes the key itself, and nothing else, to the standard output, and what it is to the error output.
func showKey(cmd *cobra.Command, r *remote, made httpapi.NewAPIKey) error {
	if r.json() {
		return document(cmd.OutOrStdout(), made)
	}
	until := ""
	if !made.ExpiresAt.IsZero() {
		until = ", good until " + showTime(made.ExpiresAt)
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s of the tenant %s is made (%s)%s. It is not shown again:\n", made.Name, made.Tenant, made.Role, until) // advice
	_, err := fmt.Fprintln(cmd.OutOrStdout(), made.Key)
	return err
}

// bootstrapKey makes a key in the store that the configuration of a node names.
func bootstrapKey(cmd *cobra.Command, r *remote, file string, ask request.KeyRequest) error {
	if err := r.check(); err != nil {
		return err
	}
	if len(r.urls) > 0 {
		return usagef("--api and --bootstrap: no API is asked")
	}
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return err
	}
	log := newLogger(cmd.ErrOrStderr(), cfg.Log)
	cc, err := node.CassandraConfig(cfg, log, nil)
	if err != nil {
		return err
	}
	store, err := cassandra.Open(cmd.Context(), cc)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	made, err := firstKey(cmd.Context(), store, r.tenant, ask)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	return showKey(cmd, r, made)
}

// keyring is what of a store the making of keys needs.
type keyring interface {
	schema.APIKeyStore
	schema.AuditStore
}

// nobody hears signals: nodes find a new key when it is used.
type nobody struct{}

func (nobody) Signal(string, []byte) {}

// firstKey makes a key of the tenant, by default of the system's, and notes it.
func firstKey(ctx context.Context, store keyring, tenant string, ask request.KeyRequest) (httpapi.NewAPIKey, error) {
	if tenant == "" {
		tenant = schema.SystemTenant
	}
	if ask.Role == "" {
		ask.Role = schema.Admin
	}
	now := time.Now()
	for what, name := range map[string]string{"--tenant": tenant, "NAME": ask.Name} {
		if fault := bucketer.NameFault(name); fault != "" {
			return httpapi.NewAPIKey{}, usagef("%s: %q %s", what, name, fault)
		}
	}
	switch {
	case !ask.Role.Covers(schema.Viewer):
		return httpapi.NewAPIKey{}, usagef("--role: %q is not viewer, operator or admin", ask.Role)
	case !ask.ExpiresAt.IsZero() && !ask.ExpiresAt.After(now):
		return httpapi.NewAPIKey{}, usagef("--expires must be in the future")
	}
	secret, k, err := admin.NewKeys(store, nobody{}, time.Now, slog.New(slog.DiscardHandler)).Create(ctx, schema.APIKey{
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

func keyListCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the API keys of the tenant",
		Args:  cobra.NoArgs,
		RunE: r.asks(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			keys, err := all(client.Keys(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list keys: %w", err)
			}
			if r.json() {
				return document(cmd.OutOrStdout(), keys)
			}
			return writeKeys(cmd.OutOrStdout(), keys)
		}),
	}
}

func writeKeys(w io.Writer, keys []httpapi.APIKey) error {
	rows := [][]string{{"NAME", "TENANT", "ROLE", "CREATED", "BY", "EXPIRES", "LAST USED"}}
	for _, k := range keys {
		rows = append(rows, []string{k.Name, k.Tenant, string(k.Role), showTime(k.CreatedAt), k.CreatedBy, showTime(k.ExpiresAt), showTime(k.LastUsedAt)})
	}
	return table(w, rows)
}

func keyRevokeCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke an API key: within 10 s no node takes it",
		Args:  cobra.ExactArgs(1),
		RunE: r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.RevokeKey(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("revoke key: %w", err)
			}
			return nil
		}),
	}
}
