package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// deployed is the folder of what runs nodes: manifests of Kubernetes, compose files, units.
const deployed = "../../../deploy"

// known returns every variable that a node reads.
func known() map[string]bool {
	names := make(map[string]bool)
	fields("", reflect.ValueOf(Default()), func(key string, _ any) { names[variable(key)] = true })
	for _, key := range inFiles {
		names[variable(key+fileSuffix)] = true
	}
	return names
}

// A node ignores variables that it does not know, so a typo would go unseen.
func TestEveryVariableOfTheManifestsIsKnown(t *testing.T) {
	names, seen := known(), 0
	used := regexp.MustCompile(`\bCARILLON_[A-Z0-9_]+`)
	for _, folder := range []string{"kubernetes", "systemd", "compose.yaml", "compose.regions.yaml"} {
		err := filepath.WalkDir(filepath.Join(deployed, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if !slices.Contains([]string{".yaml", ".service"}, filepath.Ext(path)) {
				return nil
			}
			for _, name := range used.FindAllString(read(t, path), -1) {
				seen++
				if !names[name] {
					t.Errorf("%s sets %s, which is no key of a node", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 40 {
		t.Errorf("found %d variables, want 40 and more", seen)
	}
}

// regionOf returns the variables of an overlay (ConfigMap carillon-region).
func regionOf(t *testing.T, overlay string) []string {
	t.Helper()
	var k struct {
		Generators []struct {
			Name     string
			Literals []string
		} `yaml:"configMapGenerator"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(deployed, "kubernetes/overlays", overlay, "kustomization.yaml"))), &k); err != nil {
		t.Fatal(err)
	}
	for _, g := range k.Generators {
		if g.Name == "carillon-region" {
			return g.Literals
		}
	}
	t.Fatalf("the overlay %s has no carillon-region", overlay)
	return nil
}

// mounted returns the configuration of the nodes with its secrets in a folder of the test.
func mounted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.ReplaceAll(read(t, filepath.Join(deployed, "kubernetes/base/carillon.yaml")), "/run/secrets/carillon/", dir+"/")
	for name, value := range map[string]string{
		"ring-key": someKey, "cursor-key": someKey, "secrets-keys": "k1:" + someKey + "\n",
		"cassandra-username": "u", "cassandra-password": "p", "nats-password": "n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return write(t, text)
}

// The configuration of each overlay is valid, and what the base repeats is what a node does anyway.
func TestConfigurationOfTheManifests(t *testing.T) {
	for _, overlay := range []string{"dev", "region-eu", "region-us"} {
		t.Run(overlay, func(t *testing.T) {
			environ := append(regionOf(t, overlay), "CARILLON_NODE_NAME=n", "CARILLON_RING_ADVERTISE=10.0.0.1:7946", "CARILLON_API_ADVERTISE=http://10.0.0.1:8080")
			c, err := Load(mounted(t), environ, nil)
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			d := Default()
			if c.Executor.Slots != d.Executor.Slots || c.Executor.DrainTimeout != d.Executor.DrainTimeout || c.Log.Level != d.Log.Level {
				t.Errorf("base/carillon.yaml has other values than the defaults: %d slots, %v, %s", c.Executor.Slots, c.Executor.DrainTimeout, c.Log.Level)
			}
			if c.Ring.Exposed() || c.API.Open() || c.API.CursorKey == "" || len(c.Secrets.Keys) == 0 || !c.NATS.TLS.Enabled || c.NATS.Password != "n" {
				t.Errorf("the nodes are open, or lack a secret")
			}
			if dev := overlay == "dev"; c.Cassandra.TLS.Enabled == dev {
				t.Errorf("cassandra.tls.enabled is %t", c.Cassandra.TLS.Enabled)
			}
			if region := strings.TrimPrefix(overlay, "region-"); c.Node.Region != region || c.Cassandra.Datacenter != region || c.Executor.Noop {
				t.Errorf("region %q, data centre %q, want %q", c.Node.Region, c.Cassandra.Datacenter, region)
			}
		})
	}
}

// number returns the number that pattern finds in a file.
func number(t *testing.T, path, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, filepath.Join(deployed, path)))
	if m == nil {
		t.Fatalf("%s has nothing like %s", path, pattern)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whoever stops a node waits for as long as it drains, and longer.
func TestWhoStopsANodeWaitsLongEnough(t *testing.T) {
	drain := Default().Executor.DrainTimeout
	stop := int(drain/time.Second) + 45
	if got, want := number(t, "kubernetes/base/node.yaml", `terminationGracePeriodSeconds: (\d+)`), stop+number(t, "kubernetes/base/api.yaml", `sleep: \{seconds: (\d+)\}`); got != want {
		t.Errorf("terminationGracePeriodSeconds is %d, want preStop, executor.drain_timeout and 45 s: %d", got, want)
	}
	if got := number(t, "systemd/carillon.service", `TimeoutStopSec=(\d+)s`); got < stop {
		t.Errorf("TimeoutStopSec is %d s, want %d s and more", got, stop)
	}
	for _, path := range []string{"compose.yaml", "compose.regions.yaml"} {
		if got := number(t, path, `stop_grace_period: (\d+)s`); got < int(drain/time.Second)+30 {
			t.Errorf("%s: stop_grace_period is %d s, want executor.drain_timeout and 30 s and more", path, got)
		}
	}
}

// Executors are added before those that are there are full.
func TestScalingKnowsTheSlotsOfAnExecutor(t *testing.T) {
	slots := Default().Executor.Slots
	if got := number(t, "kubernetes/components/keda/scaledobject.yaml", `threshold: "(\d+)"`); got < slots/2 || got > slots*3/4 {
		t.Errorf("the threshold of the scaler is %d, want half to three quarters of %d slots", got, slots)
	}
}

// The garbage collector keeps below the limit at which the kernel kills.
func TestMemoryOfTheManifests(t *testing.T) {
	for path, limit := range map[string]string{
		"kubernetes/base/node.yaml": `limits: \{memory: (\d+)Gi\}`, "kubernetes/components/nats/nats.yaml": `limits: \{memory: (\d+)Gi\}`, "systemd/carillon.service": `MemoryMax=(\d+)G`,
	} {
		got, most := number(t, path, `GOMEMLIMIT(?:=|, value: )(\d+)MiB`), number(t, path, limit)*1024*9/10
		if got > most || got < most*9/10 {
			t.Errorf("%s: GOMEMLIMIT is %d MiB, want a little less than %d MiB", path, got, most)
		}
	}
}

// Ports of the pods are those that the nodes listen on.
func TestPortsOfTheManifests(t *testing.T) {
	c, err := Load(mounted(t), append(regionOf(t, "region-eu"), "CARILLON_NODE_NAME=n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, listen := range map[string]string{"http": c.API.Listen, "gossip": c.Ring.Listen, "gossip-udp": c.Ring.Listen} {
		if got := number(t, "kubernetes/base/node.yaml", `name: `+name+`, containerPort: (\d+)`); !strings.HasSuffix(listen, fmt.Sprintf(":%d", got)) {
			t.Errorf("the pods' port %s is %d, and the node listens on %s", name, got, listen)
		}
	}
}
