package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
)

// expiresSoon is how long before a certificate ends there is a warning.
const expiresSoon = 30 * 24 * time.Hour

// judgeConfig judges the configuration of a node, if there is one.
func judgeConfig(f *Facts) (fs findings) {
	if !f.Configured {
		fs.add(Info, "config", "no configuration of a node was given: Cassandra, NATS, keys and certificates were not looked at", "",
			"carillon doctor --config FILE, with the file and the environment of `carillon serve`")
		return fs
	}
	if f.ConfigErr != nil {
		for line := range strings.Lines(f.ConfigErr.Error()) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "read were: ") {
				fs.add(Error, "config", line, "a node with this configuration does not start; one that runs goes on with that before",
					"set it right: deploy/carillon.yaml explains every key")
			}
		}
		return fs
	}
	c := f.Config
	if c.Ring.Exposed() {
		fs.add(Error, "keys.ring", "ring.key is not set, and ring.listen is reached by other machines", "whoever reaches the port can join the ring and read it",
			"set ring.key (head -c 32 /dev/urandom | base64), the same on every node")
	}
	if c.API.Open() {
		fs.add(Error, "keys.api", "the API asks for no key (api.auth), and other machines reach it", "whoever reaches it may do everything, for any tenant",
			"set api.auth: required, and make the first key: carillon key create admin --bootstrap --config FILE")
	}
	if c.API.CursorKey == "" && len(c.Ring.Seeds) > 0 {
		fs.add(Warning, "keys.cursor", "api.cursor_key is not set", "each node draws its own: the next page of a list, and sessions of the console, are refused by other nodes",
			"set api.cursor_key (head -c 32 /dev/urandom | base64), the same on every node")
	}
	if len(c.Secrets.Keys) == 0 {
		fs.add(Info, "keys.secrets", "secrets.keys is not set", "tenants can make neither secrets nor signing keys", "set secrets.keys if they are to")
	}
	if c.Admin.Remote() {
		fs.add(Warning, "config.admin", "admin.listen is reached by other machines", "profiles show the memory of the process, secrets among it",
			"listen on 127.0.0.1, unless something else keeps others out")
	}
	if c.Executor.Noop {
		fs.add(Error, "config.noop", "executor.noop is set", "every run succeeds and nothing is called", "take it out, unless you measure")
	}
	if wide := wideRanges(c.Executor.AllowCIDRs); len(wide) > 0 {
		fs.add(Warning, "config.allow_cidrs", "executor.allow_cidrs has "+strings.Join(wide, ", "), "whoever may make a job can call every address in there",
			"name the ranges that jobs are to call, and keep metadata services in executor.deny_cidrs")
	}
	if len(c.Ring.Seeds) == 0 {
		fs.add(Info, "config.seeds", "ring.seeds names nobody", "this node is alone", "name other nodes if there are some")
	}
	judgeTransport(f, &fs)
	judgeCertificates(f, &fs)
	if !fs.bad("") {
		fs.ok("config", "no fault, %d keys set otherwise than by default", len(config.Changes(c, config.Default())))
	}
	return fs
}

// judgeTransport tells of passwords and keys that cross a network in the clear.
func judgeTransport(f *Facts, fs *findings) {
	c := f.Config
	for _, host := range c.Cassandra.Hosts {
		if !c.Cassandra.TLS.Enabled && c.Cassandra.Password != "" && !local(host) {
			fs.add(Warning, "config.tls", "cassandra.tls is off, and there is a password", "it crosses the network in the clear, and so do jobs", "set cassandra.tls.enabled")
			break
		}
	}
	for _, text := range c.NATS.URLs {
		u, err := url.Parse(text)
		secret := c.NATS.Password != "" || c.NATS.Token != "" || err == nil && u.User != nil
		if err == nil && secret && u.Scheme != "tls" && !c.NATS.TLS.Enabled && !local(u.Host) {
			fs.add(Warning, "config.tls", "nats.tls is off, and there is a password or token", "it crosses the network in the clear, and so do payloads", "set nats.tls.enabled, or tls:// in nats.urls")
			break
		}
	}
	if open := c.Regions.Clear(c.Node.Region); len(open) > 0 {
		fs.add(Warning, "config.tls", "regions.api names http addresses of other machines", "API keys that are sent on cross the network in the clear", "name a proxy with TLS (https)")
	}
}

// local reports whether host, with or without a port, is this machine.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// wideRanges returns the ranges that hold every address, or those of metadata services.
func wideRanges(cidrs []string) (wide []string) {
	metadata := netip.MustParseAddr("169.254.169.254")
	for _, text := range cidrs {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && (p.Bits() == 0 || p.Contains(metadata)) {
			wide = append(wide, text)
		}
	}
	return wide
}

// judgeCertificates looks at the files of certificates that the configuration names.
func judgeCertificates(f *Facts, fs *findings) {
	files := map[string]string{
		"api.tls.cert": f.Config.API.TLS.Cert, "api.tls.client_ca": f.Config.API.TLS.ClientCA,
		"cassandra.tls.ca": f.Config.Cassandra.TLS.CA, "cassandra.tls.cert": f.Config.Cassandra.TLS.Cert,
		"nats.tls.ca": f.Config.NATS.TLS.CA, "nats.tls.cert": f.Config.NATS.TLS.Cert,
	}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if files[key] == "" {
			continue
		}
		until, err := certificatesUntil(files[key])
		switch left := until.Sub(f.At); {
		case err != nil:
			fs.add(Error, "certificates", fmt.Sprintf("%s: %s", key, oneLine(err)), "a node that starts now cannot connect", "put the file there, readable by the node")
		case left <= 0:
			fs.add(Error, "certificates", fmt.Sprintf("%s: a certificate of %s ended at %s", key, files[key], until.UTC().Format(time.RFC3339)),
				"new connections are refused", "replace it; what needs a restart is in deploy/OPERATING.md")
		case left < expiresSoon:
			fs.add(Warning, "certificates", fmt.Sprintf("%s: a certificate of %s ends in %d days, at %s", key, files[key], int(left.Hours()/24), until.UTC().Format(time.RFC3339)),
				"new connections are refused then", "replace it before; what needs a restart is in deploy/OPERATING.md")
		default:
			fs.ok("certificates", "%s is good until %s", key, until.UTC().Format(time.DateOnly))
		}
	}
}

// certificatesUntil returns until when all certificates of a PEM file are good.
func certificatesUntil(file string) (until time.Time, err error) {
	text, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return until, fmt.Errorf("read a certificate: %w", err)
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return until, fmt.Errorf("%s holds a certificate that cannot be read: %w", file, err)
		}
		if until.IsZero() || c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	if until.IsZero() {
		return until, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return until, nil
}
