package client

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func signingCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "signing-key",
		Short: "Make, list, rotate and revoke the keys by which HTTP calls are signed",
		Long: "Make, list, rotate and revoke the keys by which HTTP calls are signed, as Standard Webhooks says (standardwebhooks.com).\n\n" +
			"Once a tenant has a key called \"default\", its calls carry the header webhook-signature. Calls whose task names another key (http.signing_key)\n" +
			"are signed with that. Whoever is called checks them with the secret, which is shown once. The role admin is needed.",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(signingCreateCommand(r), signingListCommand(r), signingRotateCommand(r), signingRevokeCommand(r))
	return cmd
}

func signingCreateCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:     "create [NAME]",
		Short:   "Make a signing key and show its secret, this once",
		Long:    "Make a signing key, \"default\" unless it is named, and show its secret, this once. The secret alone is written to the standard output.",
		Example: "  carillon signing-key create > secret\n  carillon signing-key create partner --tenant billing",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			made, err := client.CreateSigningKey(cmd.Context(), request.SigningRequest{Name: strings.Join(args, "")})
			if err != nil {
				return fmt.Errorf("create signing key: %w", err)
			}
			return showSigningKey(cmd, r, made, "is made")
		}),
	}
}

func signingRotateCommand(r *cli.Remote) *cobra.Command {
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
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		var ask request.RotateRequest
		if overlap != "" {
			var d schema.Duration
			if err := d.UnmarshalText([]byte(overlap)); err != nil {
				return cli.Usagef("--overlap: %v", err)
			}
			ask.Overlap = &d
		}
		made, err := client.RotateSigningKey(cmd.Context(), args[0], ask)
		if err != nil {
			return fmt.Errorf("rotate signing key: %w", err)
		}
		return showSigningKey(cmd, r, made, "has a new secret")
	})
	return cmd
}

// showSigningKey writes only the secret to the standard output, and a description to the error
// output.
func showSigningKey(cmd *cobra.Command, r *cli.Remote, made httpapi.NewSigningKey, what string) error {
	if r.JSON() {
		return cli.Document(cmd.OutOrStdout(), made)
	}
	before := ""
	if len(made.Secrets) > 1 {
		before = "; the one before is valid until " + cli.ShowTime(made.Secrets[1].ValidUntil)
	}
	cli.Advise(cmd, "%s of the tenant %s %s%s. The secret is not shown again:", made.Name, made.Tenant, what, before)
	_, err := fmt.Fprintln(cmd.OutOrStdout(), made.Secret)
	return err
}

func signingListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the signing keys of the tenant, without their secrets",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			keys, err := client.SigningKeys(cmd.Context())
			if err != nil {
				return fmt.Errorf("list signing keys: %w", err)
			}
			if r.JSON() {
				return cli.Document(cmd.OutOrStdout(), keys)
			}
			rows := [][]string{{"NAME", "CREATED", "BY", "SECRET FROM", "VALID UNTIL", "SEALED WITH"}}
			for _, k := range keys {
				for _, s := range k.Secrets {
					rows = append(rows, []string{k.Name, cli.ShowTime(k.CreatedAt), k.CreatedBy, cli.ShowTime(s.CreatedAt), cli.ShowTime(s.ValidUntil), s.SealedWith})
				}
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		}),
	}
}

func signingRevokeCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a signing key: within 10 s no call is signed with it",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.RevokeSigningKey(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("revoke signing key: %w", err)
			}
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), args[0], "is revoked")
			return err
		}),
	}
}
