package cli

import (
	"cmp"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

// defaultAPI is where `carillon dev` and a node without configuration listen.
const defaultAPI = "http://127.0.0.1:8080"

// Remote holds the flags that all commands share which ask the API.
type Remote struct {
	URLs   []string
	Tenant string
	tls    httpapi.TLSFiles
	output string
}

// AddFlags adds the flags of r to a command and those below it.
func (r *Remote) AddFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringSliceVar(&r.URLs, "api", nil, "`URL`s of nodes, separated by commas (default $CARILLON_API, or "+defaultAPI+")")
	f.StringVar(&r.Tenant, "tenant", "", "tenant, where the API asks for no key, or of a key that may speak for any (default $CARILLON_TENANT, or that of the key, or the API's)")
	f.StringVar(&r.tls.CA, "ca", "", "`file` of the authorities of the API's certificate, as PEM (default $CARILLON_CA, or the system's)")
	f.StringVar(&r.tls.Cert, "cert", "", "`file` of a certificate to show to the API, as PEM (default $CARILLON_CERT)")
	f.StringVar(&r.tls.Key, "cert-key", "", "`file` of the certificate's key (default $CARILLON_CERT_KEY)")
	f.StringVarP(&r.output, "output", "o", "table", "table, or json")
}

// Nodes returns the base URLs of the nodes: of --api, else of $CARILLON_API, else the default.
func (r *Remote) Nodes() []string {
	if len(r.URLs) > 0 {
		return r.URLs
	}
	if env := os.Getenv("CARILLON_API"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{defaultAPI}
}

// ClientConfig returns the configuration of a client of urls. The key comes from the environment
// only, because every user of a machine can read the flags of its processes.
func (r *Remote) ClientConfig(urls ...string) httpapi.ClientConfig {
	tenant := r.Tenant
	if tenant == "" {
		tenant = os.Getenv("CARILLON_TENANT")
	}
	return httpapi.ClientConfig{URLs: urls, Tenant: tenant, Key: os.Getenv("CARILLON_KEY"), TLS: httpapi.TLSFiles{
		CA: cmp.Or(r.tls.CA, os.Getenv("CARILLON_CA")), Cert: cmp.Or(r.tls.Cert, os.Getenv("CARILLON_CERT")), Key: cmp.Or(r.tls.Key, os.Getenv("CARILLON_CERT_KEY")),
	}}
}

// Client validates the flags and makes a client. The caller closes it.
func (r *Remote) Client() (*httpapi.Client, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c, err := httpapi.NewClient(r.ClientConfig(r.Nodes()...))
	if err != nil {
		return nil, Usagef("%w", err)
	}
	return c, nil
}

// WithClient makes the RunE of a command that asks the API: run gets a client, which is closed
// after it.
func (r *Remote) WithClient(run func(cmd *cobra.Command, client *httpapi.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := r.Client()
		if err != nil {
			return err
		}
		defer client.Close()
		return run(cmd, client, args)
	}
}

// WithRun is WithClient for a command whose first argument is the id of a run.
func (r *Remote) WithRun(run func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error) func(*cobra.Command, []string) error {
	return r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		id, err := schema.ParseEntryID(args[0])
		if err != nil {
			return Usagef("%w", err)
		}
		return run(cmd, client, id)
	})
}

// All reads a whole list. An empty one is not nil: as JSON it is [].
func All[T any](list iter.Seq2[T, error]) ([]T, error) {
	found := []T{}
	for x, err := range list {
		if err != nil {
			return nil, err
		}
		found = append(found, x)
	}
	return found, nil
}

// Validate reports an --output that is unknown.
func (r *Remote) Validate() error {
	if r.output != "table" && r.output != "json" {
		return Usagef("--output: %q is neither table nor json", r.output)
	}
	return nil
}

// JSON reports whether the output is JSON.
func (r *Remote) JSON() bool { return r.output == "json" }

// Show writes v to the standard output as JSON, or as write does.
func (r *Remote) Show(cmd *cobra.Command, v any, write func(io.Writer) error) error {
	if r.JSON() {
		return Document(cmd.OutOrStdout(), v)
	}
	return write(cmd.OutOrStdout())
}
