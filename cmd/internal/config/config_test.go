package config

import (
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carillon.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const good = "cassandra: {hosts: [127.0.0.1]}\nnats: {urls: ['nats://127.0.0.1:4222']}\n"

func TestFileThenEnvironmentThenFlags(t *testing.T) {
	path := write(t, good+"node: {name: file}\nroles: [bucketer]\nexecutor: {slots: 5, drain_timeout: 5s}\nlog: {level: warn}\n")
	c, err := Load(path, []string{"CARILLON_NODE_NAME=env", "CARILLON_EXECUTOR_ALLOW_CIDRS=10.0.0.0/8,127.0.0.0/8", "CARILLON_EXECUTOR_DENY_CIDRS=10.1.0.1/16", "CARILLON_LOG_LEVEL=error", "CARILLON_TEST_NATS=x"},
		map[string]any{"log.level": "debug"})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if c.Node.Name != "env" || c.Log.Level != "debug" || !slices.Equal(c.Roles, []string{Bucketer}) {
		t.Errorf("Load: name %q, level %q, roles %q; want env, debug, [bucketer]", c.Node.Name, c.Log.Level, c.Roles)
	}
	allow, deny := c.Executor.Prefixes()
	if c.Executor.Slots != 5 || c.Executor.DrainTimeout != 5*time.Second || len(allow) != 2 || !slices.Equal(deny, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}) {
		t.Errorf("Load: executor %+v; want 5 slots, 5s, two ranges allowed and one denied", c.Executor)
	}
	if c.API.Listen != Default().API.Listen {
		t.Errorf("Load: api.listen %q, want the default %q", c.API.Listen, Default().API.Listen)
	}
}

func TestLabelsOfAnExecutor(t *testing.T) {
	for _, row := range []struct{ name, text, want, fault string }{
		{"none", "", "", ""},
		{"some", "executor: {labels: [zone=a, gpu=true]}\n", "gpu=true,zone=a", ""},
		{"no executor", "roles: [bucketer]\nexecutor: {labels: [zone=a]}\n", "", ""},
		{"no value", "executor: {labels: [gpu]}\n", "", "executor.labels: \"gpu\" is not a list of labels"},
		{"a name twice", "executor: {labels: [gpu=a, gpu=b]}\n", "", "executor.labels: \"gpu\" stands there twice"},
		{"too long", "executor: {labels: [" + strings.Join([]string{long("a"), long("b"), long("c"), long("d"), long("e")}, ", ") + "]}\n", "", "executor.labels: take 174 bytes, more than 160"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := Load(write(t, good+"node: {name: file}\n"+row.text), nil, nil)
			switch {
			case row.fault == "" && (err != nil || c.ExecutorLabels().String() != row.want):
				t.Errorf("Load: labels %q, %v, want %q", c.ExecutorLabels(), err, row.want)
			case row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)):
				t.Errorf("Load = %v, want %q", err, row.fault)
			}
		})
	}
}

// long returns a label whose name begins with a letter.
func long(letter string) string { return letter + "=" + strings.Repeat("x", schema.MaxLabel) }

func TestNoopIsSetByTheEnvironment(t *testing.T) {
	path := write(t, good+"node: {name: file}\n")
	for _, row := range []struct {
		name    string
		environ []string
		want    bool
	}{{"not set", nil, false}, {"set", []string{"CARILLON_EXECUTOR_NOOP=true"}, true}} {
		t.Run(row.name, func(t *testing.T) {
			c, err := Load(path, row.environ, nil)
			if err != nil || c.Executor.Noop != row.want {
				t.Errorf("Load with %q: noop %t, %v, want %t", row.environ, c.Executor.Noop, err, row.want)
			}
		})
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	path := write(t, "node: {nam: x}\nroles: [cook]\nring: {key: short, listen: nowhere}\nexecutor: {slots: 0, allow_cidrs: [all]}\nlog: {level: loud}\ndead_letters: {retention: 1s}\nemail: {server: nowhere, tls: ssl, ca: /none, username: u, from: nobody, recipients: [all]}\n")
	_, err := Load(path, nil, nil)
	if err == nil {
		t.Fatal("Load: no error for a file full of faults")
	}
	for _, key := range []string{"node.nam", "roles", "ring.key", "ring.listen", "executor.slots", "executor.allow_cidrs", "log.level", "dead_letters.retention", "email.server", "email.tls", "email.ca", "email.username", "email.from", "email.recipients", "cassandra.hosts", "nats.urls"} {
		if !strings.Contains(err.Error(), key+":") {
			t.Errorf("Load: the error does not name %s:\n%v", key, err)
		}
	}
}

func TestEveryRangeThatIsNoneIsNamed(t *testing.T) {
	_, err := Load(write(t, good+"executor: {allow_cidrs: [all, 10.0.0.0/8], deny_cidrs: [203.0.113.7, 10.0.0.0/8, '::ffff:10.0.0.0/104', none]}\n"), nil, nil)
	for _, want := range []string{
		`executor.allow_cidrs: "all"`, `executor.deny_cidrs: "203.0.113.7"`, `executor.deny_cidrs: "::ffff:10.0.0.0/104"`, `executor.deny_cidrs: "none"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load: %v; want it to name %s", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), `"10.0.0.0/8"`) {
		t.Errorf("Load: %v; want it to name none that is a range", err)
	}
}

func TestNoSecretInFaults(t *testing.T) {
	path := write(t, "nats: {urls: [x]}\nring: {key: 'c2VjcmV0LXRoYXQtaXMtdG9vLXNob3J0'}\ncassandra: {password: hunter2}\n")
	_, err := Load(path, nil, nil)
	if err != nil && (strings.Contains(err.Error(), "c2Vjc") || strings.Contains(err.Error(), "hunter2")) {
		t.Errorf("Load: the error repeats a secret: %v", err)
	}
}

func TestValuesOfTheWrongTypeHideNoOtherFault(t *testing.T) {
	path := write(t, "executor: {slots: hunter2, noop: [yes], drain_timeout: 30, allow_cidrs: [7]}\nring: not-a-group\ncassandra: {password: 12345, tls: {enabled: 7}}\nlog: {level: loud}\n")
	_, err := Load(path, []string{"CARILLON_NATS_LANES=several", "CARILLON_LOG_FORMAT="}, map[string]any{"node.name": []string{}})
	if err == nil {
		t.Fatal("Load: no error for a file full of faults")
	}
	for _, want := range []string{
		path + ": executor.slots: is a text, want a whole number\n",
		path + ": executor.noop: is a list, want true or false\n",
		path + ": executor.drain_timeout: is a whole number, want a span with its unit, such as 30s\n",
		path + ": executor.allow_cidrs: entry 1 is a whole number, want a text: put it between quotes\n",
		path + ": ring: is a text, want the keys below it\n",
		path + ": cassandra.password: is a whole number, want a text: put it between quotes\n",
		path + ": cassandra.tls.enabled: is a whole number, want true or false\n",
		"CARILLON_NATS_LANES in the environment: nats.lanes: is a text, want a whole number\n",
		"flag: node.name: is a list, want a text",
		"log.level: \"loud\" is not",
		"log.format: \"\" is not",
		"cassandra.hosts: names no host",
		"\nread were: " + path + "; of the environment: CARILLON_LOG_FORMAT, CARILLON_NATS_LANES; flags for: node.name",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Load: the error lacks %q:\n%v", want, err)
		}
	}
	for _, secret := range []string{"hunter2", "12345"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("Load: the error repeats %s, which may be a secret in the wrong place:\n%v", secret, err)
		}
	}
	if strings.Contains(err.Error(), "executor.slots: 0") {
		t.Errorf("Load: a value that could not be read is judged as well:\n%v", err)
	}
}

func TestFaultsWithoutAFileSayWhatWasRead(t *testing.T) {
	_, err := Load("", nil, nil)
	if want := "\nread were: no file (--config names one); of the environment: no CARILLON_… that is a key; flags for: no key"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Load of nothing: %v, want an error that ends with %q", err, want)
	}
}

func TestKeysWithoutAValueHaveTheirDefaults(t *testing.T) {
	path := write(t, good+"node:\napi:\n  listen:\nexecutor: {slots: 7}\n")
	c, err := Load(path, []string{"CARILLON_EXECUTOR_SLOTS=", "CARILLON_EXECUTOR_NOOP=", "CARILLON_EXECUTOR_DRAIN_TIMEOUT=", "CARILLON_EXECUTOR_ALLOW_CIDRS="}, nil)
	if err != nil || c.API.Listen != Default().API.Listen || c.Executor.Slots != 7 || c.Executor.DrainTimeout != Default().Executor.DrainTimeout || len(c.Executor.AllowCIDRs) != 0 {
		t.Errorf("Load: api.listen %q, executor %+v, %v; want the defaults and the file's 7 slots", c.API.Listen, c.Executor, err)
	}
}

// valid is a configuration without faults.
func valid() Config {
	c := Default()
	c.Node.Name, c.Cassandra.Hosts, c.NATS.URLs = "a", []string{"127.0.0.1"}, []string{"nats://127.0.0.1:4222"}
	return c
}

func TestProfilesAreRemoteOnlyIfAllowed(t *testing.T) {
	for _, row := range []struct {
		listen string
		allow  bool
		remote bool
		fault  string
	}{
		{"", false, false, ""},
		{"127.0.0.1:6060", false, false, ""},
		{"127.0.3.1:6060", false, false, ""},
		{"[::1]:6060", false, false, ""},
		{"localhost:6060", false, false, ""},
		{":6060", false, true, "admin.allow_remote is not set"},
		{"0.0.0.0:6060", false, true, "admin.allow_remote is not set"},
		{"10.0.0.7:6060", false, true, "admin.allow_remote is not set"},
		{"localhost.example.org:6060", false, true, "admin.allow_remote is not set"},
		{"10.0.0.7:6060", true, true, ""},
		{"nowhere", true, true, "is not host:port"},
	} {
		c := valid()
		c.Admin = Admin{Listen: row.listen, AllowRemote: row.allow}
		err := c.Validate()
		if (err == nil) != (row.fault == "") || err != nil && !strings.Contains(err.Error(), row.fault) || c.Admin.Remote() != row.remote {
			t.Errorf("admin.listen %q, allow_remote %t: %v, remote %t; want a fault with %q, remote %t", row.listen, row.allow, err, c.Admin.Remote(), row.fault, row.remote)
		}
	}
}

func TestNoKeyOfTLSIsIgnored(t *testing.T) {
	c := valid()
	c.Cassandra.TLS = TLS{CA: "a", Cert: "b", Key: "c", ServerName: "d"}
	err := c.Validate()
	for _, key := range []string{"ca", "cert", "key", "server_name"} {
		if err == nil || !strings.Contains(err.Error(), "cassandra.tls."+key+": is set, and cassandra.tls.enabled is not") {
			t.Errorf("Validate with cassandra.tls.%s and without enabled = %v, want a fault", key, err)
		}
	}
	if c.Cassandra.TLS.Enabled = true; c.Validate() != nil {
		t.Errorf("Validate with cassandra.tls.enabled = %v, want nil", c.Validate())
	}
	c.NATS.TLS = TLS{CA: "a", Cert: "b"}
	for _, want := range []string{"nats.tls.ca: is set, and nats.tls.enabled is not", "nats.tls.cert: goes together with nats.tls.key"} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate with nats.tls %+v = %v, want %q", c.NATS.TLS, err, want)
		}
	}
}

func TestGossipWithoutAKeyIsExposedBeyondTheLoopback(t *testing.T) {
	for _, row := range []struct {
		ring Ring
		want bool
	}{
		{Ring{Listen: "127.0.0.1:7946"}, false},
		{Ring{Listen: "0.0.0.0:7946"}, true},
		{Ring{Listen: "0.0.0.0:7946", Key: "x"}, false},
	} {
		if got := row.ring.Exposed(); got != row.want {
			t.Errorf("Exposed of %+v = %t, want %t", row.ring, got, row.want)
		}
	}
}

// carillon dev takes the settings that one process can have, and says why it refuses the others.
func TestLoadDev(t *testing.T) {
	key := "a:" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	c, err := LoadDev(Dev(), write(t, "executor:\n  drain_timeout: 1s\nroles: [bucketer, dispatcher, executor]\n"),
		[]string{"CARILLON_EXECUTOR_SLOTS=7", "CARILLON_SECRETS_KEYS=" + key, "CARILLON_NATS_LANES=2", "CARILLON_API=http://x", "CARILLON_CASSANDRA_PASSWORD="},
		map[string]any{"api.listen": DevListen(0)})
	if err != nil {
		t.Fatalf("LoadDev = %v", err)
	}
	if c.Executor.Slots != 7 || !slices.Equal(c.Secrets.Keys, []string{key}) || c.NATS.Lanes != 2 || c.Executor.DrainTimeout != time.Second || c.API.Listen != "127.0.0.1:0" ||
		len(c.Executor.AllowCIDRs) != 2 || c.Node.Name != "dev" {
		t.Errorf("LoadDev = %+v, want what was set over what dev is", c)
	}

	_, err = LoadDev(Dev(), write(t, "cassandra:\n  hosts: [a.test]\nnats:\n  urls: [nats://b.test]\nring:\n  seeds: [c.test:1]\nroles: [executor]\n"),
		[]string{"CARILLON_API_LISTEN=0.0.0.0:80", "CARILLON_API_AUTH=required", "CARILLON_NATS_PASSWORD=hunter-2", "CARILLON_EXECUTOR_SLOTS=0"}, nil)
	if err == nil {
		t.Fatal("LoadDev of what is for a cluster = nil, want every fault")
	}
	for _, want := range []string{
		"cassandra.hosts: carillon dev", "nats.urls: carillon dev", "ring.seeds: carillon dev", "roles: carillon dev",
		"CARILLON_API_LISTEN in the environment: api.listen: carillon dev", "api.auth: carillon dev", "nats.password: carillon dev", "executor.slots: 0 is not",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("LoadDev of what is for a cluster = %v, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter") {
		t.Errorf("LoadDev repeats a password: %v", err)
	}
}

func TestHostsOfClocksAreNamedByAddressOrName(t *testing.T) {
	for _, row := range []struct {
		hosts []string
		fault string
	}{
		{nil, ""},
		{[]string{"10.0.0.1=a", "fd00::1=a", "nats-1.nats.svc.cluster.local=b", "NATS_2 = b", "nats-3.example=c"}, ""},
		{[]string{"nats-1.example:4222=a"}, `"nats-1.example:4222=a" is not an address or name`},
		{[]string{"nats://nats-1.example=a"}, "is not an address or name"},
		{[]string{"10.0.0.300=a"}, "is not an address or name"},
		{[]string{"=a"}, "is not an address or name"},
		{[]string{"nats-1.example="}, "is not an address or name"},
		{[]string{"nats-1.example=a", "NATS-1.example=b"}, "names an address twice"},
	} {
		c := valid()
		c.Clock.Hosts = row.hosts
		if err := c.Validate(); (err == nil) != (row.fault == "") || err != nil && !strings.Contains(err.Error(), row.fault) {
			t.Errorf("clock.hosts %q: %v, want a fault with %q", row.hosts, err, row.fault)
		}
	}
}

// TestPublicURL: what messages of several formats link to is a plain URL.
func TestPublicURL(t *testing.T) {
	for text, good := range map[string]bool{
		"": true, "https://carillon.example.com": true, "https://carillon.example.com/": true, "http://10.0.0.1:8080/carillon": true,
		"carillon.example.com": false, "ftp://x.test": false, "https://": false, "https://u:p@x.test": false, "https://x.test/?a=b": false, "https://x.test/#a": false,
		"https://x.test/<b>": false, "https://x.test/a|b": false, "https://x.test/a b": false, "https://x.test/\"": false, "https://x.test/ü": false, "javascript:alert(1)": false,
	} {
		c := Default()
		c.Node.Name, c.API.PublicURL = "a", text
		err := c.Validate()
		if said := err != nil && strings.Contains(err.Error(), "api.public_url"); said == good {
			t.Errorf("api.public_url %q: %v, want it taken: %t", text, err, good)
		}
	}
}

// TestACursorKeyThatIsShortIsNamed: a node says so before it connects to anything.
func TestACursorKeyThatIsShortIsNamed(t *testing.T) {
	for key, want := range map[string]string{"": "", strings.Repeat("k", 16): "", "short": "api.cursor_key: is 5 bytes long, fewer than 16"} {
		c := Dev()
		c.API.CursorKey = key
		if err := c.Validate(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Validate with the cursor key %q = %v, want %q", key, err, want)
		}
	}
}
