package ring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"
)

func valid() Config {
	return Config{Name: "carillon-1", Roles: []string{RoleBucketer, RoleDispatcher}}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   []string // of the error; none: valid
	}{
		{"the least", func(*Config) {}, nil},
		{"everything", func(c *Config) {
			c.Bind, c.Advertise, c.Key, c.Shards = "[::]:7946", "10.1.2.3:7946", testKey, 4096
			c.Seeds = []string{"carillon.internal", "10.0.0.1", "10.0.0.1:7000", "fd00::1", "[fd00::1]:7000", "host:7946"}
			c.API, c.Zone, c.Region, c.Version = "https://carillon-1.example.com:8443", "eu-1a", "eu-1", "v1.2.3-rc.1"
		}, nil},
		{"no name", func(c *Config) { c.Name = "" }, []string{`name ""`}},
		{"a host as bind address", func(c *Config) { c.Bind = "localhost:7946" }, []string{`bind: "localhost:7946"`}},
		{"no port to bind", func(c *Config) { c.Bind = "10.0.0.1" }, []string{`bind: "10.0.0.1"`}},
		{"advertising no address", func(c *Config) { c.Advertise = "0.0.0.0:7946" }, []string{`advertise "0.0.0.0:7946": nobody`}},
		{"advertising no port", func(c *Config) { c.Advertise = "10.0.0.1:0" }, []string{`advertise "10.0.0.1:0": nobody`}},
		{"an empty seed", func(c *Config) { c.Seeds = []string{""} }, []string{`seed ""`}},
		{"a seed with a bad port", func(c *Config) { c.Seeds = []string{"host:seven"} }, []string{`seed "host:seven"`}},
		{"a seed with port 0", func(c *Config) { c.Seeds = []string{"host:0"} }, []string{`seed "host:0"`}},
		{"a seed that is a URL", func(c *Config) { c.Seeds = []string{"http://host"} }, []string{`seed "http://host"`}},
		{"a key that is no base64", func(c *Config) { c.Key = "secret!" }, []string{"key: not base64"}},
		{"a key of 15 bytes", func(c *Config) { c.Key = "MDEyMzQ1Njc4OWFiY2Rl" }, []string{"key: 15 bytes"}},
		{"no role", func(c *Config) { c.Roles = nil }, []string{"roles: none"}},
		{"an unknown role", func(c *Config) { c.Roles = []string{"cook"} }, []string{`role "cook"`}},
		{"too many shards", func(c *Config) { c.Shards = 5000 }, []string{"5000 shards"}},
		{"too much metadata", func(c *Config) { c.API = "http://" + strings.Repeat("a", 500) }, []string{"more than 512"}},
		{
			"several faults", func(c *Config) { *c = Config{Bind: "x", Key: "?", Seeds: []string{""}} },
			[]string{`name ""`, "bind", "key", "seed", "roles"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := valid()
			tt.change(&c)
			err := c.Validate()
			if len(tt.want) == 0 && err != nil {
				t.Errorf("Validate() = %v, want nil", err)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Validate() = %v, want an error with %q", err, want)
				}
			}
			if _, newErr := New(c); (newErr == nil) != (err == nil) {
				t.Errorf("New = %v where Validate() = %v", newErr, err)
			}
		})
	}
}

// What is just small enough with the smallest incarnation must be so with every one.
func TestValidateCountsTheWidestMetadata(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := valid()
		c.Incarnation = rapid.Uint64Min(1).Draw(t, "incarnation")
		c.API = strings.Repeat("a", rapid.IntRange(380, 460).Draw(t, "API"))
		if c.Validate() != nil {
			return
		}
		text, err := encodeMetadata(c.member(), true)
		if err != nil || len(text) > maxMetadata {
			t.Fatalf("Validate() = nil, but the metadata is %d bytes: %v", len(text), err)
		}
	})
}

func TestKeyDoesNotPrint(t *testing.T) {
	c := valid()
	c.Key = testKey
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", c.Key, "config", fmt.Sprintf("%v %+v %#v %s", c, c, c, c.Key))
	text, err := json.Marshal(map[string]any{"key": c.Key})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	c.Key += "!"
	out.WriteString(c.Validate().Error())
	if strings.Contains(out.String(), string(testKey)) {
		t.Errorf("the key is in %s", &out)
	}
}

func TestMetadataComesBack(t *testing.T) {
	want := Member{
		Name: "a", Incarnation: 1<<64 - 1, Addr: "10.0.0.1:7946", API: "http://a:80",
		Roles: []string{RoleBucketer, RoleDispatcher}, Zone: "z", Region: "r", Version: "v1", Labels: "gpu=true,zone=a",
	}
	text, err := encodeMetadata(want, true)
	if err != nil {
		t.Fatal(err)
	}
	got, leaving, err := decodeMetadata(want.Name, want.Addr, text)
	if err != nil || !leaving {
		t.Fatalf("decodeMetadata(%s) = leaving %t, %v; want true, nil", text, leaving, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decodeMetadata(%s): %s", text, diff)
	}
}

func TestDecodeMetadata(t *testing.T) {
	tests := []struct {
		name, member, text string
		ok                 bool
	}{
		{"a field of a later release", "a", `{"i":1,"r":["dispatcher","dreamer"],"new":{}}`, true},
		{"no text", "a", ``, false},
		{"no JSON", "a", `hello`, false},
		{"no incarnation", "a", `{"r":["dispatcher"]}`, false},
		{"a negative incarnation", "a", `{"i":-1}`, false},
		{"a name we would not take", "a b", `{"i":1}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := decodeMetadata(tt.member, "10.0.0.1:1", []byte(tt.text)); (err == nil) != tt.ok {
				t.Errorf("decodeMetadata(%q, %s) = %v, want ok: %t", tt.member, tt.text, err, tt.ok)
			}
		})
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	c := valid()
	registry := prometheus.NewRegistry()
	c.Registerer = registry
	if _, err := New(c); err != nil {
		t.Fatalf("New = %v", err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "carillon_ring_") || f.GetHelp() == "" {
			t.Errorf("metric %s (%q): want the prefix carillon_ring_ and a help text", f.GetName(), f.GetHelp())
		}
	}
	if len(families) != 8 {
		t.Errorf("%d metrics, want 8, all of them before anything happens", len(families))
	}
	if _, err := New(c); err == nil {
		t.Error("New with the same registry = nil, want an error")
	}
}
