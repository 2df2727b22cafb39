package cassandra

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Config, and the bounds of what one request may carry.
const (
	DefaultPort              = 9042
	DefaultKeyspace          = "carillon"
	DefaultDatacenter        = "dc1"
	DefaultTimeout           = 2 * time.Second
	DefaultConnectTimeout    = time.Second
	DefaultReconnectInterval = time.Second
	DefaultNumConns          = 2
	DefaultPageBytes         = 1 << 20

	maxBatchRows = 100 // rows of one batch
	// bytes of one batch, by our own count; the server's may be lower, see Check
	maxBatchBytes = 128 << 10
	maxRowBytes   = schema.MaxRow
	maxPageRows   = 5000 // rows of one page, however small they are
	maxIDsPerRead = 100  // ids named by one read
)

// Config says how to reach a Cassandra cluster. Zero fields have the defaults above.
type Config struct {
	Hosts      []string // addresses to begin with; the others are learnt from them
	Port       int
	Keyspace   string
	Datacenter string // the datacenter that is "local"; no node of another one is used
	// Datacenters are those of all regions, ours among them: the keyspace must have copies in each of
	// them and in no other. Empty: there are no regions, and it has copies in ours alone.
	Datacenters []string

	Username string // empty = no authentication
	Password string // never logged
	TLS      *TLS   // nil = not encrypted

	Timeout           time.Duration // of one request
	ConnectTimeout    time.Duration
	ReconnectInterval time.Duration // how often a node that is down is tried again
	NumConns          int           // connections to each node
	PageBytes         int           // about how many bytes one page of a read may have

	// the clock that expiries are counted from; time.Now by default
	Now        func() time.Time
	Logger     *slog.Logger          // discards by default
	Registerer prometheus.Registerer // of the metrics; nil = none

	dialer gocql.Dialer // tests put faults between here and the server; nil = the network
}

// TLS says how connections are encrypted. The server's certificate is always verified.
type TLS struct {
	CA         string // file of PEM certificates to trust; "" = those of the system
	Cert, Key  string // files of the client's certificate and key; both or neither
	ServerName string // the name that certificates must have; "" = the address of each node
}

// identifier is what a keyspace and a datacenter may be called: CQL text that needs no quoting.
var (
	identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
	datacenter = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// withDefaults returns c with every zero field filled in.
func (c Config) withDefaults() Config {
	c.Port = or(c.Port, DefaultPort)
	c.Keyspace = or(c.Keyspace, DefaultKeyspace)
	c.Datacenter = or(c.Datacenter, DefaultDatacenter)
	c.Timeout = or(c.Timeout, DefaultTimeout)
	c.ConnectTimeout = or(c.ConnectTimeout, DefaultConnectTimeout)
	c.ReconnectInterval = or(c.ReconnectInterval, DefaultReconnectInterval)
	c.NumConns = or(c.NumConns, DefaultNumConns)
	c.PageBytes = or(c.PageBytes, DefaultPageBytes)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports every fault of c, joined. It reads no file.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("cassandra: "+format, args...)) }
	if len(c.Hosts) == 0 {
		fault("hosts: at least one is needed")
	}
	for _, h := range c.Hosts {
		if h == "" {
			fault("hosts: an empty one")
		}
	}
	if c.Port < 1 || c.Port > 65535 {
		fault("port: %d is not between 1 and 65535", c.Port)
	}
	if !identifier.MatchString(c.Keyspace) {
		fault("keyspace: %q is not a small letter followed by at most 47 of a-z, 0-9, _", c.Keyspace)
	}
	if !datacenter.MatchString(c.Datacenter) {
		fault("datacenter: %q is not a name of at most 64 of A-Z, a-z, 0-9, . _ -", c.Datacenter)
	}
	if c.Username == "" && c.Password != "" {
		fault("password: given without a username")
	}
	if c.TLS != nil && (c.TLS.Cert == "") != (c.TLS.Key == "") {
		fault("tls: cert and key are given together or not at all")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"timeout", c.Timeout}, {"connect_timeout", c.ConnectTimeout}, {"reconnect_interval", c.ReconnectInterval}} {
		if d.value < time.Millisecond {
			fault("%s: %s is less than 1ms", d.name, d.value)
		}
	}
	if c.NumConns < 1 || c.NumConns > 64 {
		fault("num_conns: %d is not between 1 and 64", c.NumConns)
	}
	if c.PageBytes < 16<<10 || c.PageBytes > 64<<20 {
		fault("page_bytes: %d is not between 16 KiB and 64 MiB", c.PageBytes)
	}
	return errors.Join(faults...)
}

// config reads the files of t.
func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read certificates to trust: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificates to trust: %s holds no PEM certificate", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// cluster returns the driver's configuration for c, which has its defaults. keyspace may be empty.
func (c Config) cluster(keyspace string) (*gocql.ClusterConfig, error) {
	cl := gocql.NewCluster(c.Hosts...)
	cl.ProtoVersion = 4 // 4.1 and 5.0 both speak it; finding it out costs a connection
	cl.Port = c.Port
	cl.Keyspace = keyspace
	cl.Timeout, cl.WriteTimeout = c.Timeout, c.Timeout
	cl.ConnectTimeout = c.ConnectTimeout
	cl.MaxWaitSchemaAgreement = agreeTimeout
	cl.ReconnectInterval = c.ReconnectInterval
	cl.NumConns = c.NumConns
	cl.Consistency = gocql.LocalQuorum
	cl.SerialConsistency = gocql.LocalSerial // statements say theirs: serialLevels
	cl.DefaultTimestamp = false              // the statements have timestamps of their own
	cl.DefaultIdempotence = false
	cl.RetryPolicy = nil // the driver would retry conditional writes too: see repeat
	cl.Logger = driverLog{c.Logger}
	cl.HostFilter = gocql.DataCentreHostFilter(c.Datacenter)
	cl.PoolConfig.HostSelectionPolicy = newGuarded(keyspace,
		gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(c.Datacenter), gocql.ShuffleReplicas()),
		gocql.DCAwareRoundRobinPolicy(c.Datacenter), c.Logger)
	if c.dialer != nil {
		cl.Dialer = c.dialer
	}
	if c.Username != "" {
		cl.Authenticator = gocql.PasswordAuthenticator{Username: c.Username, Password: c.Password}
	}
	if c.TLS != nil {
		t, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		cl.SslOpts = &gocql.SslOptions{Config: t, EnableHostVerification: true}
	}
	return cl, nil
}

// driverLog passes what the driver says to a slog.Logger.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any) { l.log.Debug("driver", "text", fmt.Sprint(v...)) }

func (l driverLog) Printf(format string, v ...any) {
	l.log.Debug("driver", "text", fmt.Sprintf(format, v...))
}

func (l driverLog) Println(v ...any) { l.log.Debug("driver", "text", fmt.Sprint(v...)) }

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
