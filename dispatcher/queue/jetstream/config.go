package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/dispatcher/queue"
)

// Defaults of Config.
const (
	DefaultLanes    = 1
	DefaultMaxBytes = 512 << 20
	maxLanes        = 256
	maxReplicas     = 5
	minMaxBytes     = 1 << 20
)

// Server is a NATS server in this process.
type Server interface {
	InProcessConn() (net.Conn, error)
}

// Config says where NATS is and what the streams are like. The zero value of a field is its
// default.
type Config struct {
	URLs   []string // nats://host:port or tls://…, one or more …
	Server Server   // … or a server in this process

	Name        string // of this client, as NATS shows it; default "carillon"
	Credentials string // file of a NATS credentials chain
	User        string // with Password
	Password    string //
	Token       string // instead of user and password
	TLS         *TLS   // nil: TLS only where a URL asks for it, verified by the system's roots

	Names    queue.Names // prefix of streams and subjects
	Lanes    int         // number of lanes; default DefaultLanes
	Replicas int         // of the streams; 0 = one on each server, up to 3
	MaxBytes int64       // bound of one stream; default DefaultMaxBytes
	Memory   bool        // streams in memory instead of files

	Logger     *slog.Logger          // nil logs nothing
	Registerer prometheus.Registerer // nil registers nothing
}

// Validate returns all faults of c together. It repeats nothing that may be secret.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("nats: "+format, args...)) }
	if (len(c.URLs) == 0) == (c.Server == nil) {
		fault("needs URLs or a server in this process, and not both")
	}
	for i, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			fault("URL %d is not of the form nats://host:port or tls://host:port", i+1)
		}
	}
	if c.Lanes < 0 || c.Lanes > maxLanes {
		fault("%d lanes, want 1 to %d", c.Lanes, maxLanes)
	}
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		fault("%d replicas, want 1 to %d, or 0 for as many as there are servers, up to 3", c.Replicas, maxReplicas)
	}
	if c.MaxBytes != 0 && c.MaxBytes < minMaxBytes {
		fault("streams of %d bytes, want at least %d", c.MaxBytes, minMaxBytes)
	}
	if (c.User == "") != (c.Password == "") {
		fault("user and password go together")
	}
	if c.TLS != nil && (c.TLS.Cert == "") != (c.TLS.Key == "") {
		fault("certificate and key go together")
	}
	if c.Token != "" && (c.User != "" || c.Credentials != "") || c.User != "" && c.Credentials != "" {
		fault("credentials, token, user and password exclude each other")
	}
	if err := c.Names.Validate(); err != nil {
		fault("%w", err)
	}
	return errors.Join(faults...)
}

// withDefaults returns c with every default filled in.
func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "carillon"
	}
	if c.Lanes == 0 {
		c.Lanes = DefaultLanes
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Names = c.Names.Or()
	return c
}
