// Package config reads what an operator can set: by file, environment and flags. It reports all
// faults together.
//
// Flags override the environment, which overrides the file, which overrides the
// defaults. The key a.b_c of the file is CARILLON_A_B_C in the environment, where lists are
// separated by commas. A secret can lie in a file of its own, which a.b_file (CARILLON_A_B_FILE) names.
// deploy/carillon.yaml explains every key.
//
//	config.go   the settings, their defaults and their faults
//	load.go     reads the sources and puts one over the other
//	infile.go   values that lie in files of their own, such as secrets
//	change.go   what differs between two configurations
//	apitls.go   by which certificates the API is served
//	oidc.go     whose tokens the API takes
//	convert.go  turns a value of a source into the type of its key
//	regions.go  the regions and their homes
//	email.go    the operator's mail server
//	dev.go      the settings of carillon dev
//	scripts.go  the operator's allow list of commands
package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

// Config is the configuration of a node. Default has the values of what is not set.
type Config struct {
	Node        Node        `koanf:"node"`
	Roles       []string    `koanf:"roles"` // bucketer, dispatcher, executor
	API         API         `koanf:"api"`
	Admin       Admin       `koanf:"admin"`
	Ring        Ring        `koanf:"ring"`
	Cassandra   Cassandra   `koanf:"cassandra"`
	NATS        NATS        `koanf:"nats"`
	Clock       Clock       `koanf:"clock"`
	Regions     Regions     `koanf:"regions"`
	Executor    Executor    `koanf:"executor"`
	DeadLetters DeadLetters `koanf:"dead_letters"`
	Email       Email       `koanf:"email"`
	Secrets     Secrets     `koanf:"secrets"`
	Log         Log         `koanf:"log"`
}

// Node says who the process is.
type Node struct {
	// Name is unique in the cluster and the same after a restart; default: the host's name.
	Name string `koanf:"name"`
	// Host is the machine, as Clock.Hosts names it; default: the one with our addresses.
	Host   string `koanf:"host"`
	Zone   string `koanf:"zone"`
	Region string `koanf:"region"`
}

// API is the HTTP interface. Every node listens, whatever its roles: for health, metrics and the
// cluster's state.
type API struct {
	Listen    string `koanf:"listen"`    // host:port
	Advertise string `koanf:"advertise"` // base URL told to the others; default: that of listen
	// PublicURL is the base URL under which people reach API and console, for links in messages.
	PublicURL string `koanf:"public_url"`
	// CursorKey signs the cursors of lists and seals sessions; the same on every node.
	CursorKey string `koanf:"cursor_key"`
	// Auth says whether requests need an API key: AuthRequired, AuthNone, or AuthAuto.
	Auth string `koanf:"auth"`
	// ProtectMetrics has /metrics ask for a key of the system tenant.
	ProtectMetrics bool `koanf:"protect_metrics"`
	// ReadOnly has this node refuse every request that changes something.
	ReadOnly bool `koanf:"read_only"`

	TLS  APITLS `koanf:"tls"`
	OIDC OIDC   `koanf:"oidc"`
}

// What API.Auth may be.
const (
	AuthAuto     = "auto" // required, unless only this machine can reach the API
	AuthRequired = "required"
	AuthNone     = "none"
)

// AuthRequired reports whether requests need an API key.
func (a API) AuthRequired() bool {
	return a.Auth == AuthRequired || a.Auth == AuthAuto && !loopback(a.Listen)
}

// Open reports whether the API takes requests without a key from other machines.
func (a API) Open() bool { return !a.AuthRequired() && !loopback(a.Listen) }

// Admin is a listener for the operator: profiles under /debug/pprof/.
type Admin struct {
	Listen string `koanf:"listen"` // host:port of the loopback interface; empty = none
	// AllowRemote accepts other addresses too. Profiles show the memory of the process, so
	// something else must guard the listener then.
	AllowRemote bool `koanf:"allow_remote"`
}

// Remote reports whether other machines may reach the listener. They count as able to if the
// address has a name other than localhost, because it may resolve to anything later.
func (a Admin) Remote() bool { return a.Listen != "" && !loopback(a.Listen) }

// Validate reports what is wrong with the address.
func (a Admin) Validate() error {
	if a.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(a.Listen); err != nil {
		return fmt.Errorf("admin.listen: %q is not host:port", a.Listen)
	}
	if a.Remote() && !a.AllowRemote {
		return fmt.Errorf("admin.listen: %q is not of the loopback interface, and admin.allow_remote is not set", a.Listen)
	}
	return nil
}

// loopback reports whether only this machine can reach address (host:port).
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// Ring is the gossip.
type Ring struct {
	Listen    string   `koanf:"listen"` // ip:port, UDP and TCP
	Advertise string   `koanf:"advertise"`
	Seeds     []string `koanf:"seeds"`
	Key       string   `koanf:"key"` // base64 of 16, 24 or 32 bytes
}

// Exposed reports whether gossip crosses a network without a key, so that everybody who reaches the
// port can join and read.
func (r Ring) Exposed() bool { return r.Key == "" && !loopback(r.Listen) }

// Cassandra is the store of a cluster.
type Cassandra struct {
	Hosts      []string `koanf:"hosts"` // host or host:port
	Keyspace   string   `koanf:"keyspace"`
	Datacenter string   `koanf:"datacenter"`
	Username   string   `koanf:"username"`
	Password   string   `koanf:"password"`
	TLS        TLS      `koanf:"tls"`
}

// TLS turns encryption on. The server's certificate is always verified.
type TLS struct {
	Enabled    bool   `koanf:"enabled"`
	CA         string `koanf:"ca"` // file; default: the system's roots
	Cert       string `koanf:"cert"`
	Key        string `koanf:"key"`
	ServerName string `koanf:"server_name"`
}

// faults reports what is wrong with the keys below group.
func (t TLS) faults(group string) error {
	var faults []error
	if !t.Enabled {
		for _, part := range []struct{ name, value string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}, {"server_name", t.ServerName}} {
			if part.value != "" {
				faults = append(faults, fmt.Errorf("%s.%s: is set, and %s.enabled is not: nothing would be encrypted", group, part.name, group))
			}
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		faults = append(faults, fmt.Errorf("%s.cert: goes together with %s.key", group, group))
	}
	return errors.Join(faults...)
}

// NATS is the queue of a cluster.
type NATS struct {
	URLs        []string `koanf:"urls"`
	Credentials string   `koanf:"credentials"`
	User        string   `koanf:"user"`
	Password    string   `koanf:"password"`
	Token       string   `koanf:"token"`
	TLS         TLS      `koanf:"tls"`
	Lanes       int      `koanf:"lanes"`
}

// Clock says which servers share a clock.
type Clock struct {
	// Hosts are "address=host": the server at an address or DNS name is on a host. Default: each
	// address is one.
	Hosts []string `koanf:"hosts"`
}

// Names returns the host of each address and DNS name in Hosts. They are in lower case.
func (c Clock) Names() map[string]string {
	names := make(map[string]string)
	for _, h := range c.Hosts {
		if address, host, ok := strings.Cut(h, "="); ok {
			names[strings.ToLower(strings.TrimSpace(address))] = strings.TrimSpace(host)
		}
	}
	return names
}

// Validate reports what is wrong with the list.
func (c Clock) Validate() error {
	var faults []error
	for _, h := range c.Hosts {
		address, host, _ := strings.Cut(h, "=")
		if !isAddressOrName(strings.TrimSpace(address)) || strings.TrimSpace(host) == "" {
			faults = append(faults, fmt.Errorf(
				"clock.hosts: %q is not an address or name without a port, and a host, such as 10.0.0.1=rack1-a", h))
		}
	}
	if len(c.Names()) < len(c.Hosts) && len(faults) == 0 {
		faults = append(faults, errors.New("clock.hosts: names an address twice"))
	}
	return errors.Join(faults...)
}

// dnsName is a name of hosts. Its last label begins with a letter: 10.0.0.300 is none.
var dnsName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?\.)*[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`)

func isAddressOrName(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || len(s) <= 253 && dnsName.MatchString(s)
}

// Executor says what this node's executor may run.
type Executor struct {
	Slots int `koanf:"slots"` // attempts under way at once
	// Labels are "name=value": what work may require of its executor.
	Labels []string `koanf:"labels"`
	// AllowCIDRs are ranges that may be called although they are not public.
	AllowCIDRs []string `koanf:"allow_cidrs"`
	// DenyCIDRs are ranges that may not be called, even if public or allowed.
	DenyCIDRs    []string      `koanf:"deny_cidrs"`
	DrainTimeout time.Duration `koanf:"drain_timeout"`
	// MaxOutput is how much of an attempt's output is kept, bytes.
	MaxOutput int `koanf:"max_output"`
	// Scripts names the file of the commands that jobs may run (LoadScripts); empty: none.
	// Bucketers read it too, to refuse others.
	Scripts string `koanf:"scripts"`
	// Noop is for measurements only: every run succeeds at once, and nothing is called.
	Noop bool `koanf:"noop"`
}

// DeadLetters says how runs that failed for good are kept.
type DeadLetters struct {
	Retention time.Duration `koanf:"retention"` // after the end of the run; the same on every node
}

// What DeadLetters.Retention may be. More than a year would outlive every other trace of a run by
// far.
const (
	minDeadLetters = time.Hour
	maxDeadLetters = 400 * 24 * time.Hour
)

// Secrets holds the keys that encrypt the tenants' secrets in the store.
type Secrets struct {
	Keys []string `koanf:"keys"` // "name:base64 of 32 bytes"; the first encrypts, all decrypt
}

// Log says what is logged, and how.
type Log struct {
	Level  string `koanf:"level"`  // debug, info, warn, error
	Format string `koanf:"format"` // text, json
}

// Roles of a node.
const (
	Bucketer   = "bucketer"
	Dispatcher = "dispatcher"
	ExecutorR  = "executor"
)

// Default returns the configuration without any setting.
func Default() Config {
	return Config{
		Roles:       []string{Bucketer, Dispatcher, ExecutorR},
		API:         API{Listen: "127.0.0.1:8080", Auth: AuthAuto, TLS: APITLS{ClientAuth: ClientsRequired}, OIDC: OIDC{NameClaim: "sub", Skew: time.Minute}},
		Ring:        Ring{Listen: "127.0.0.1:7946"},
		Cassandra:   Cassandra{Keyspace: "carillon", Datacenter: "dc1"},
		NATS:        NATS{Lanes: 1},
		Regions:     Regions{Keyspace: cassandra.DefaultRegionsKeyspace, Durability: DurableHome},
		Executor:    Executor{Slots: 2048, DrainTimeout: 30 * time.Second, MaxOutput: target.DefaultMaxOutput},
		DeadLetters: DeadLetters{Retention: 30 * 24 * time.Hour},
		Email:       Email{TLS: schema.StartTLS},
		Log:         Log{Level: "info", Format: "text"},
	}
}

// Validate reports every fault of c, each with its key.
func (c Config) Validate() error {
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if c.Node.Name == "" {
		fault("node.name", "is empty")
	}
	if len(c.Roles) == 0 {
		fault("roles", "names no role")
	}
	for _, r := range c.Roles {
		if !slices.Contains([]string{Bucketer, Dispatcher, ExecutorR}, r) {
			fault("roles", "%q is not bucketer, dispatcher or executor", r)
		}
	}
	if _, _, err := net.SplitHostPort(c.API.Listen); err != nil {
		fault("api.listen", "%q is not host:port", c.API.Listen)
	}
	if !slices.Contains([]string{AuthAuto, AuthRequired, AuthNone}, c.API.Auth) {
		fault("api.auth", "%q is not auto, required or none", c.API.Auth)
	}
	if n := len(c.API.CursorKey); n > 0 && n < httpapi.MinCursorKey {
		fault("api.cursor_key", "is %d bytes long, fewer than %d", n, httpapi.MinCursorKey)
	}
	if c.API.ProtectMetrics && !c.API.AuthRequired() {
		fault("api.protect_metrics", "is set, and the API asks for no keys (api.auth)")
	}
	faults = append(faults, c.Admin.Validate(), c.API.TLS.Validate(), c.API.OIDC.Validate(c.API.Advertise))
	if c.API.Advertise != "" {
		if u, err := url.Parse(c.API.Advertise); err != nil || u.Host == "" {
			fault("api.advertise", "%q is not a URL", c.API.Advertise)
		}
	}
	if text := c.API.PublicURL; text != "" {
		// what a message is told of it stands in formats of several services
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.ContainsAny(text, "?#<>|\"'\\ ") || u.String() != text {
			fault("api.public_url", "is not an http or https URL without user, query and fragment")
		}
	}
	for key, addr := range map[string]string{"ring.listen": c.Ring.Listen, "ring.advertise": c.Ring.Advertise} {
		if _, err := netip.ParseAddrPort(addr); err != nil && (addr != "" || key == "ring.listen") {
			fault(key, "%q is not ip:port", addr)
		}
	}
	if key, err := base64.StdEncoding.DecodeString(c.Ring.Key); c.Ring.Key != "" && (err != nil || !slices.Contains([]int{16, 24, 32}, len(key))) {
		fault("ring.key", "is not the base64 of 16, 24 or 32 bytes")
	}
	if len(c.Cassandra.Hosts) == 0 {
		fault("cassandra.hosts", "names no host")
	}
	faults = append(faults, c.Cassandra.TLS.faults("cassandra.tls"), c.NATS.TLS.faults("nats.tls"))
	if len(c.NATS.URLs) == 0 {
		fault("nats.urls", "names no server")
	}
	if c.NATS.Lanes < 1 || c.NATS.Lanes > 64 {
		fault("nats.lanes", "%d is not between 1 and 64", c.NATS.Lanes)
	}
	if err := c.Clock.Validate(); err != nil {
		faults = append(faults, err)
	}
	if err := c.Email.Validate(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, c.regionFaults()...)
	if c.Executor.Slots < 1 || c.Executor.Slots > 1_000_000 {
		fault("executor.slots", "%d is not between 1 and 1,000,000", c.Executor.Slots)
	}
	if labels, err := c.Executor.labels(); err != nil {
		fault("executor.labels", "%v", err)
	} else if n := len(labels.String()); n > schema.MaxExecutorLabels {
		fault("executor.labels", "take %d bytes, more than %d", n, schema.MaxExecutorLabels)
	}
	if c.Executor.DrainTimeout < 0 {
		fault("executor.drain_timeout", "is negative")
	}
	if c.Executor.MaxOutput < 1 || c.Executor.MaxOutput > target.MaxMaxOutput {
		fault("executor.max_output", "%d is not between 1 and %d bytes", c.Executor.MaxOutput, target.MaxMaxOutput)
	}
	for _, list := range []struct {
		key   string
		cidrs []string
	}{{"executor.allow_cidrs", c.Executor.AllowCIDRs}, {"executor.deny_cidrs", c.Executor.DenyCIDRs}} {
		for _, cidr := range list.cidrs {
			// the guard sees no such address
			if p, err := netip.ParsePrefix(cidr); err != nil || p.Addr().Is4In6() {
				fault(list.key, "%q is not a range of addresses such as 10.0.0.0/8", cidr)
			}
		}
	}
	if _, err := admin.ParseKeyring(c.Secrets.Keys); err != nil {
		fault("secrets.keys", "%v", err)
	}
	if f := c.Executor.Scripts; f != "" {
		if _, err := LoadScripts(f); err != nil {
			fault("executor.scripts", "%v", err)
		}
	}
	if r := c.DeadLetters.Retention; r < minDeadLetters || r > maxDeadLetters {
		fault("dead_letters.retention", "%s is not between %s and %s", r, minDeadLetters, maxDeadLetters)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		fault("log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	if !slices.Contains([]string{"text", "json"}, c.Log.Format) {
		fault("log.format", "%q is not text or json", c.Log.Format)
	}
	return errors.Join(faults...)
}

// Has reports whether the node has a role.
func (c Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

func (e Executor) labels() (schema.Labels, error) {
	return schema.ParseLabels(strings.Join(e.Labels, ","))
}

// ExecutorLabels returns the labels of the node's executor; nil: it has none, or there is no
// executor. Validate has parsed them before.
func (c Config) ExecutorLabels() schema.Labels {
	if !c.Has(ExecutorR) {
		return nil
	}
	labels, err := c.Executor.labels()
	if err != nil {
		return nil
	}
	return labels
}

// Prefixes returns the ranges that the executor may call though they are not public, and those that
// it may not. Validate has parsed them before.
func (e Executor) Prefixes() (allow, deny []netip.Prefix) {
	return prefixes(e.AllowCIDRs), prefixes(e.DenyCIDRs)
}

func prefixes(cidrs []string) (ps []netip.Prefix) {
	for _, cidr := range cidrs {
		if p, err := netip.ParsePrefix(strings.TrimSpace(cidr)); err == nil {
			ps = append(ps, p.Masked())
		}
	}
	return ps
}
