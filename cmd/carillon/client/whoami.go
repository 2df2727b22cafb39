package client

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func whoamiCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show whose key this is, what it may do, and which node answers",
		Args:  cobra.NoArgs,
	}
	r.AddFlags(cmd)
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		who, err := client.Whoami(cmd.Context())
		if err != nil {
			return fmt.Errorf("whoami: %w", err)
		}
		return r.Show(cmd, &who, func(w io.Writer) error {
			return cli.Table(w, [][]string{
				{"ACTOR", "TENANT", "ROLE", "EVERY TENANT", "NEEDS A KEY", "READ-ONLY", "NODE", "VERSION"},
				{who.Actor, who.Tenant, string(who.Role), yesOrNo(who.TenantsAll), yesOrNo(who.Auth), yesOrNo(who.ReadOnly), who.Node, who.Version},
			})
		})
	})
	return cmd
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
