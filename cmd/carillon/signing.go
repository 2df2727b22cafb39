package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func signingCommand() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{
		Use:   "signing-key",
		Short: "Make, list, rotate and revoke the keys by which HTTP calls are signed",
		Long: "Make, list, rotate and revoke the keys by which HTTP calls are signed, as Standard Webhooks says (standardwebhooks.com).\n\n" +
			"Once a tenant has a key called \"default\", its calls carry the header webhook-signature. Calls whose task names another key (http.signing_key)\n" +
			"are signed with that. Whoever is called checks them with the secret, which is shown once. The role admin is needed.",
	})
	r.flags(cmd)
	cmd.AddCommand(signingCreateCommand(r), signingListCommand(r), signingRotateCommand(r), signingRevokeCommand(r))
	return cmd
}

func signingCreateCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "create [NAME]",
		Short:   "Make a signing key and show its secret, this once",
		Long:    "Make a signing key, \"default\" unless it is named, and show its secret, this once. The secret alone is written to the standard output.",
		Example: "  carillon signing-key create > secret\n  carillon signing-key create partner --tenant billing",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			made, err := client.CreateSigningKey(cmd.Context(), request.SigningRequest{Name: strings.Join(args, "")})
			if err != nil {
				return fmt.Errorf("create signing key: %w", err)
			}
			return showSigningKey(cmd, r, made, "is made")
		}),
	}
}

func signingRotateCommand(r *remote) *cobra.Command {
	var overlap string
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a signing key a new secret and show it, this once",
		Long: "Give a signing key a new secret and show it, this once. The secret before it goes on signing beside the new one for the overlap: calls then\n" +
			"carry both signatures, and whoever is called can change over in between. At most three secrets are valid at once.",
		Example: "  carillon signing-key rotate default --overlap 1h",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&overlap, "overlap", "", "how long the secret before goes on signing, as a `span` up to 720h; default 24h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var ask request.RotateRequest
		if overlap != "" {
			var d schema.Duration
			if err := d.UnmarshalText([]byte(overlap)); err != nil {
				return usagef("--overlap: %v", err)
			}
			ask.Overlap = &d
		}
		client, err := r.client()
		if err != nil {
			return err
		}
		defer client.Close()
		made, err := client.RotateSigningKey(cmd.Context(), args[0], ask)
		if err != nil {
			return fmt.Errorf("rotate signing key: %w", err)
		}
		return showSigningKey(cmd, r, made, "has a new secret")
	}
	return cmd
}

// showSigningKey writes the secret, and nothing else, to the standard output, and what it is to the error output.
func showSigningKey(cmd *cobra.Command, r *remote, made httpapi.NewSigningKey, what string) error {
	if r.json() {
		return document(cmd.OutOrStdout(), made)
	}
	before := ""
	if len(made.Secrets) > 1 {
		before = "; the one before is valid until " + showTime(made.Secrets[1].ValidUntil)
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s of the tenant %s %s%s. The secret is not shown again:\n", made.Name, made.Tenant, what, before) // advice
	_, err := fmt.Fprintln(cmd.OutOrStdout(), made.Secret)
	return err
}

func signingListCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the signing keys of the tenant, without their secrets",
		Args:  cobra.NoArgs,
		RunE: r.asks(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			keys, err := client.SigningKeys(cmd.Context())
			if err != nil {
				return fmt.Errorf("list signing keys: %w", err)
			}
			if r.json() {
				return document(cmd.OutOrStdout(), keys)
			}
			rows := [][]string{{"NAME", "CREATED", "BY", "SECRET FROM", "VALID UNTIL", "SEALED WITH"}}
			for _, k := range keys {
				for _, s := range k.Secrets {
					rows = append(rows, []string{k.Name, showTime(k.CreatedAt), k.CreatedBy, showTime(s.CreatedAt), showTime(s.ValidUntil), s.SealedWith})
				}
			}
			return table(cmd.OutOrStdout(), rows)
		}),
	}
}

func signingRevokeCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a signing key: within 10 s no call is signed with it",
		Args:  cobra.ExactArgs(1),
		RunE: r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.RevokeSigningKey(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("revoke signing key: %w", err)
			}
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), args[0], "is revoked") // advice
			return err
		}),
	}
}
