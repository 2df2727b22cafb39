package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/internal/config"
)

// lookTimeout bounds a look unless --timeout says otherwise.
const lookTimeout = 30 * time.Second

// options are the flags.
type options struct {
	file, bundle    string
	monitors, disks []string
	json            bool
	timeout         time.Duration
	environ         []string
}

// Command returns the command of a program of that version.
func Command(version string) *cobra.Command {
	r, o := &cli.Remote{}, options{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is not as it should be in a running installation, and what to do",
		Long: "Say what is not as it should be in a running installation, and what to do. It changes nothing.\n\n" +
			"With the configuration of a node, and its environment, it looks at the configuration, keys and certificates, at Cassandra (settings, replication,\n" +
			"nodes, migrations), at NATS (JetStream, streams, storage), and at the clocks of all of them. By the API it looks at every node: readiness, versions,\n" +
			"shards, who the members are as each node sees it, regions. Without a configuration it asks the API alone, such as that of `carillon dev`.\n\n" +
			"Where the API asks for a key it takes one of the tenant \"system\" ($CARILLON_KEY). The key is sent to the URLs of --api, and to other nodes of the\n" +
			"ring only if ring.key is set: else whoever joins the ring would get it.\n\n" +
			"Exit codes: 0 nothing worse than info, 1 warnings, 2 errors.",
		Example: "  carillon doctor --config /etc/carillon/carillon.yaml\n" +
			"  carillon doctor --config carillon.yaml --bundle report.tar.gz\n" +
			"  carillon doctor --config carillon.yaml --nats-monitor http://nats-1:8222 --disk /var/lib/cassandra",
		Args: cobra.NoArgs,
	}
	r.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.file, "config", "", "configuration `file` (YAML) of a node")
	f.StringVar(&o.bundle, "bundle", "", "also write a `file` (tar.gz) for a bug report, without secrets")
	f.StringSliceVar(&o.monitors, "nats-monitor", nil, "`URL`s of monitoring ports of NATS servers: tells sync_interval and storage")
	f.StringSliceVar(&o.disks, "disk", nil, "`folders` of this machine whose disks are to have room, such as that of Cassandra")
	f.BoolVar(&o.json, "json", false, "the same as --output json")
	f.DurationVar(&o.timeout, "timeout", lookTimeout, "how long it looks at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.Validate(); err != nil {
			return err
		}
		o.json, o.environ = o.json || r.JSON(), os.Environ()
		return run(cmd, r, o, version)
	}
	return cmd
}

// run looks, judges, and says what it found.
func run(cmd *cobra.Command, r *cli.Remote, o options, version string) error {
	for _, url := range o.monitors {
		if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
			return cli.Usagef("--nats-monitor: %q is not the http URL of a monitoring port", url)
		}
	}
	if o.timeout <= 0 {
		return cli.Usagef("--timeout: %v is not above 0", o.timeout)
	}
	if _, err := r.ClientConfig().TLS.Config(); err != nil {
		return cli.Usagef("%w", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	key := r.ClientConfig().Key
	f := look(ctx, r, o, version)
	hide := newHider(append(f.Config.SecretValues(), key))
	report := newReport(f, f.judge(), hide)
	if o.bundle != "" {
		entries, err := f.entries(&report)
		if err == nil {
			err = saveBundle(o.bundle, entries, f.At, hide)
		}
		if err != nil {
			return err
		}
		cli.Advise(cmd, "%s is written. It holds names of machines, tenants and tasks: look before you send it.", o.bundle)
	}
	if err := show(cmd.OutOrStdout(), &report, o.json); err != nil {
		return err
	}
	return report.outcome()
}

func show(w io.Writer, r *Report, asJSON bool) error {
	if asJSON {
		return cli.Document(w, r)
	}
	return r.write(w)
}

// look collects the facts.
func look(ctx context.Context, r *cli.Remote, o options, version string) *Facts {
	f := &Facts{Version: version, At: time.Now().UTC(), File: o.file}
	f.Configured = o.file != "" || slices.ContainsFunc(o.environ, func(e string) bool { return strings.HasPrefix(e, "CARILLON_CASSANDRA_HOSTS=") })
	if f.Configured {
		f.Config, f.ConfigErr = config.Load(o.file, o.environ, nil)
	} else {
		f.Config = config.Default()
	}
	cc := r.ClientConfig()
	secure, _ := cc.TLS.Config() // run has reported its faults
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: askTimeout}).DialContext, TLSClientConfig: secure}}
	defer client.CloseIdleConnections()
	f.Key = cc.Key != ""
	a := asker{key: cc.Key, tenant: cc.Tenant, trusted: f.Configured && f.ConfigErr == nil && f.Config.Ring.Key != "", http: client}
	var all sync.WaitGroup
	if f.Configured && f.ConfigErr == nil {
		all.Go(func() { f.Store = lookAtStore(ctx, f.Config) })
		all.Go(func() { f.Queue = lookAtQueue(ctx, f.Config, o.monitors, client) })
	}
	all.Go(func() { f.Nodes = a.nodes(ctx, bases(r, f)) })
	for _, dir := range o.disks {
		f.Disks = append(f.Disks, lookAtDisk(dir))
	}
	all.Wait()
	return f
}

// bases returns where the API is: as --api or the environment say, else as the configuration says.
func bases(r *cli.Remote, f *Facts) []string {
	named := len(r.URLs) > 0 || os.Getenv("CARILLON_API") != ""
	urls := r.Nodes()
	if !named && f.Configured && f.ConfigErr == nil {
		urls = []string{baseOf(f.Config.API)}
	}
	var trimmed []string
	for _, u := range urls {
		if u = strings.TrimSuffix(strings.TrimSpace(u), "/"); u != "" {
			trimmed = append(trimmed, u)
		}
	}
	return trimmed
}

// baseOf returns where the API of a node is reached from its machine.
func baseOf(a config.API) string {
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return a.Advertise
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		if a.Advertise != "" {
			return a.Advertise
		}
		host = "127.0.0.1"
	}
	return fmt.Sprintf("%s://%s", a.TLS.Scheme(), net.JoinHostPort(host, port))
}
