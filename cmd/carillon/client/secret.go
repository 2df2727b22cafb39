package client

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func secretCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "secret",
		Short: "Put, list and remove the secrets that calls are made with",
		Long: "Put, list and remove the secrets that calls are made with: tokens, passwords, private keys. Tasks and jobs name a secret (http.auth,\n" +
			"lambda.credentials). Nobody can read a value back. The role admin is needed to put and to remove.\n\n" +
			"--auth of carillon job create and carillon task set is one of:\n" +
			"  " + strings.Join(authForms, "\n  ") + "\n" +
			"The secret of --credentials, for AWS, is JSON: {\"access_key_id\": \"…\", \"secret_access_key\": \"…\"}, and \"session_token\" if there is one.\n" +
			"A cluster keeps secrets once its operator has configured a key to encrypt them with: secrets.keys, or CARILLON_SECRETS_KEYS (README: Secrets).",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(secretPutCommand(r), secretListCommand(r), secretRemoveCommand(r))
	return cmd
}

func secretPutCommand(r *cli.Remote) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Give a secret a value, from the standard input or a file",
		Long: "Give a secret a value, from the standard input or a file; not from the command line, which others on the machine can see. One line end at\n" +
			"its end is left out. Another value than before is in use within 10 s. The value before it can be used for an hour more, where a certificate and\n" +
			"its key are put one after the other.",
		Example: "  carillon secret put orders-token < token.txt\n" +
			"  pass show orders | carillon secret put orders-token\n" +
			"  carillon secret put orders-certificate --file client.pem",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&file, "file", "", "read the value from this `file` instead of the standard input")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		value, err := readSecret(cmd, file)
		if err != nil {
			return err
		}
		s, err := client.PutSecret(cmd.Context(), args[0], request.SecretRequest{Value: value})
		if err != nil {
			return fmt.Errorf("put secret: %w", err)
		}
		if r.JSON() {
			return cli.Document(cmd.OutOrStdout(), s)
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s of the tenant %s has version %d\n", s.Name, s.Tenant, s.Versions[0].Version)
		return err
	})
	return cmd
}

// readSecret reads a value from a file, or from the standard input if that is "". No error says
// anything of it.
func readSecret(cmd *cobra.Command, file string) (string, error) {
	in := cmd.InOrStdin()
	if file != "" {
		f, err := os.Open(file) // #nosec G304 -- whoever runs the command says so
		if err != nil {
			return "", fmt.Errorf("read secret: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	} else if out, ok := in.(io.Writer); ok && cli.IsTerminal(out) {
		cli.Advise(cmd, "Type the value, and end it with Ctrl-D. It is shown as you type.")
	}
	const most = schema.MaxSecretValue
	text, err := io.ReadAll(io.LimitReader(in, most+3)) // a line end more, and a byte by which it is too long
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) == 0:
		return "", cli.Usagef("there is no value: it is read from the standard input, or from --file")
	case len(text) > most:
		return "", cli.Usagef("the value is longer than %d bytes", most)
	}
	return string(text), nil
}

func secretListCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the secrets of the tenant, without their values",
		Args:  cobra.NoArgs,
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
			all, err := cli.All(client.Secrets(cmd.Context()))
			if err != nil {
				return fmt.Errorf("list secrets: %w", err)
			}
			if r.JSON() {
				return cli.Document(cmd.OutOrStdout(), all)
			}
			rows := [][]string{{"NAME", "VERSION", "FROM", "BY", "VALID UNTIL", "SEALED WITH", "LAST USED"}}
			for _, s := range all {
				if s.Fault != "" {
					rows = append(rows, []string{s.Name, "", "", "", "", "", s.Fault})
				}
				for i, v := range s.Versions {
					used := ""
					if i == 0 {
						used = cli.ShowTime(s.LastUsedAt)
					}
					rows = append(rows, []string{s.Name, fmt.Sprint(v.Version), cli.ShowTime(v.CreatedAt), v.CreatedBy, cli.ShowTime(v.ValidUntil), v.SealedWith, used})
				}
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		}),
	}
}

func secretRemoveCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a secret: within 10 s no call is made with it, and calls that need it fail",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			if err := client.DeleteSecret(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("remove secret: %w", err)
			}
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), args[0], "is removed")
			return err
		}),
	}
}
