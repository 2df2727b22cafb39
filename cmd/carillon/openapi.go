package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
)

func openapiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the API, as nodes of this version serve it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := httpapi.Document(version)
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			return nil
		},
	}
}
