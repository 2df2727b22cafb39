// Package deploy_test checks the container files without a container engine: that they parse, that
// every name in them exists, and that their versions are those that are tested.
package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A composeFile is the part of a compose file that is used here.
type composeFile struct {
	Services map[string]service
	Networks map[string]any
	Volumes  map[string]any
	Configs  map[string]struct{ Content string }
}

type service struct {
	Image       string
	Build       *struct{ Context, Dockerfile string }
	Command     []string
	Hostname    string
	Restart     string
	Networks    []string
	Volumes     []string
	Ports       []string
	Environment map[string]string
	Healthcheck *struct {
		Test    []string
		Disable bool
	}
	DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
	Configs   []struct{ Source, Target string }
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	return readComposeFile(t, "compose.yaml")
}

func readComposeFile(t *testing.T, path string) composeFile {
	t.Helper()
	var c composeFile
	if err := yaml.Unmarshal([]byte(read(t, path)), &c); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

func TestComposeShape(t *testing.T) {
	want := []string{
		"carillon-1", "carillon-2", "cassandra-1", "cassandra-2", "cassandra-3", "migrate", "nats-1", "nats-2", "nats-3",
	}
	if got := slices.Sorted(maps.Keys(readCompose(t).Services)); !slices.Equal(got, want) {
		t.Errorf("services are %q, want %q", got, want)
	}
}

// TestComposeNames: everything that a service names exists, and a service that others wait for can
// reach the state that they wait for.
func TestComposeNames(t *testing.T) {
	for _, path := range []string{"compose.yaml", "compose.regions.yaml"} {
		t.Run(path, func(t *testing.T) { checkNames(t, readComposeFile(t, path)) })
	}
}

func checkNames(t *testing.T, c composeFile) {
	t.Helper()
	used := map[string]string{} // volume → service
	for name, s := range c.Services {
		for other, wait := range s.DependsOn {
			target, ok := c.Services[other]
			switch {
			case !ok:
				t.Errorf("%s depends on %s, which there is not", name, other)
			case wait.Condition == "service_healthy" && (target.Healthcheck == nil || target.Healthcheck.Disable || len(target.Healthcheck.Test) == 0):
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			case wait.Condition == "service_completed_successfully" && target.Restart != "no":
				t.Errorf("%s waits for the end of %s, which is restarted (%q)", name, other, target.Restart)
			case wait.Condition != "service_healthy" && wait.Condition != "service_completed_successfully":
				t.Errorf("%s waits for %s to be %q, which says nothing about it", name, other, wait.Condition)
			}
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s uses the volume %s, which is not declared", name, source)
			}
			if other, taken := used[source]; taken {
				t.Errorf("%s and %s share the volume %s", name, other, source)
			}
			used[source] = name
		}
		for _, network := range s.Networks {
			if _, ok := c.Networks[network]; !ok {
				t.Errorf("%s is in the network %s, which is not declared", name, network)
			}
		}
		for _, config := range s.Configs {
			if _, ok := c.Configs[config.Source]; !ok {
				t.Errorf("%s uses the config %s, which is not declared", name, config.Source)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to the world, without a password", name, port)
			}
		}
		if s.Hostname != "" && s.Hostname != name {
			t.Errorf("%s has the host name %s, copied from another", name, s.Hostname)
		}
		if len(s.Networks) == 0 {
			t.Errorf("%s is in no network", name)
		}
	}
	for volume := range c.Volumes {
		if used[volume] == "" {
			t.Errorf("nobody uses the volume %s", volume)
		}
	}
}

// TestComposeOrder: nodes start after the migration, which starts after all of Cassandra, which
// joins one by one.
func TestComposeOrder(t *testing.T) {
	services := readCompose(t).Services
	waits := func(name, other string) bool { _, ok := services[name].DependsOn[other]; return ok }
	for _, pair := range [][2]string{
		{"carillon-1", "migrate"},
		{"carillon-2", "migrate"},
		{"migrate", "cassandra-1"},
		{"migrate", "cassandra-2"},
		{"migrate", "cassandra-3"},
		{"cassandra-2", "cassandra-1"},
		{"cassandra-3", "cassandra-2"},
	} {
		if !waits(pair[0], pair[1]) {
			t.Errorf("%s does not wait for %s", pair[0], pair[1])
		}
	}
	if command := services["migrate"].Command; len(command) == 0 || command[0] != "migrate" {
		t.Errorf("migrate runs %q", command)
	}
}

// TestComposeConfig: the nodes' configuration is YAML and names only hosts and settings that exist.
func TestComposeConfig(t *testing.T) {
	c := readCompose(t)
	var config struct {
		Roles []string
		API   struct {
			Listen    string
			CursorKey string `yaml:"cursor_key"`
			Auth      string
		}
		Ring struct {
			Listen, Key string
			Seeds       []string
		}
		Cassandra struct {
			Hosts                []string
			Keyspace, Datacenter string
		}
		NATS struct{ URLs []string }
	}
	d := yaml.NewDecoder(strings.NewReader(c.Configs["carillon"].Content))
	d.KnownFields(true)
	if err := d.Decode(&config); err != nil {
		t.Fatalf("config carillon: %v", err)
	}
	hosts := slices.Concat(config.Cassandra.Hosts, config.Ring.Seeds, config.NATS.URLs)
	if len(hosts) != 8 {
		t.Errorf("config carillon names %d hosts, want 3 Cassandra, 3 NATS and 2 seeds", len(hosts))
	}
	for _, address := range hosts {
		host, _, _ := strings.Cut(strings.TrimPrefix(address, "nats://"), ":")
		if _, ok := c.Services[host]; !ok {
			t.Errorf("config carillon names %s, and there is no service %s", address, host)
		}
	}
	if dc := c.Services["cassandra-1"].Environment["CASSANDRA_DC"]; dc != config.Cassandra.Datacenter {
		t.Errorf("config carillon says data centre %q, Cassandra says %q", config.Cassandra.Datacenter, dc)
	}
	if !strings.HasPrefix(config.Ring.Key, "${") || !strings.HasPrefix(config.API.CursorKey, "${") {
		t.Error("a key stands in the file")
	}
	if config.API.Auth != "none" { // else nobody could try anything before a first key was made
		t.Errorf("config carillon asks for keys: api.auth is %q", config.API.Auth)
	}
	for _, name := range []string{"carillon-1", "carillon-2"} {
		if got, want := c.Services[name].Environment["CARILLON_API_ADVERTISE"], "http://"+name+":8080"; got != want {
			t.Errorf("%s tells the others %q, want %q", name, got, want)
		}
	}
}

// TestComposeNATS: each server has its own name and knows all three.
func TestComposeNATS(t *testing.T) {
	services := readCompose(t).Services
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("nats-%d", i)
		command := services[name].Command
		for _, want := range []string{
			"--name=" + name, "--jetstream", "--store_dir=/data",
			"--routes=nats://nats-1:6222,nats://nats-2:6222,nats://nats-3:6222",
		} {
			if !slices.Contains(command, want) {
				t.Errorf("%s runs without %s: %q", name, want, command)
			}
		}
	}
}

// TestComposeRegions: nothing of a region leads to the other, and each migrates a keyspace of its own.
func TestComposeRegions(t *testing.T) {
	c := readComposeFile(t, "compose.regions.yaml")
	for _, region := range []string{"eu", "us"} {
		node, migrate := c.Services["carillon-"+region], c.Services["migrate-"+region]
		for key, want := range map[string]string{
			"CARILLON_NODE_REGION": region, "CARILLON_CASSANDRA_HOSTS": "cassandra-" + region, "CARILLON_CASSANDRA_KEYSPACE": "carillon_" + region,
			"CARILLON_CASSANDRA_DATACENTER": region, "CARILLON_NATS_URLS": "nats://nats-" + region + ":4222", "CARILLON_RING_SEEDS": "carillon-" + region + ":7946",
		} {
			if node.Environment[key] != want || migrate.Environment[key] != want {
				t.Errorf("%s: %s is %q for the node and %q for the migration, want %q", region, key, node.Environment[key], migrate.Environment[key], want)
			}
		}
		if got := migrate.Command[len(migrate.Command)-1]; got != region+":1" {
			t.Errorf("%s: copies of the keyspace: %q, want %s:1", region, got, region)
		}
	}
	for _, place := range []string{"eu", "us", "witness"} {
		if got := c.Services["cassandra-"+place].Environment["CASSANDRA_DC"]; got != place {
			t.Errorf("cassandra-%s is of the data centre %q", place, got)
		}
	}
}

// TestVersions: containers run what the tests run.
func TestVersions(t *testing.T) {
	gomod, pom, dockerfile := read(t, "../go.mod"), read(t, "local/cluster/cassandra/pom.xml"), read(t, "Dockerfile")
	find := func(pattern, text string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("nothing matches %s", pattern)
		}
		return m[1]
	}
	nats := find(`nats-server/v2 v(\S+)`, gomod)
	cassandra := find(`<artifactId>cassandra-all</artifactId>\s*<version>([^<]+)<`, pom)
	services := readComposeFile(t, "compose.regions.yaml").Services
	maps.Copy(services, readCompose(t).Services)
	for name, s := range services {
		want := map[string]string{"nats": "nats:" + nats + "-alpine", "cassandra": "cassandra:" + cassandra, "carillon": "carillon", "migrate": "carillon"}
		kind, _, _ := strings.Cut(name, "-")
		if s.Image != want[kind] {
			t.Errorf("%s runs %s, want %s", name, s.Image, want[kind])
		}
	}
	for _, image := range regexp.MustCompile(`image: nats:(\S+)`).FindAllStringSubmatch(read(t, "kubernetes/components/nats/nats.yaml"), -1) {
		if image[1] != nats+"-alpine" {
			t.Errorf("kubernetes/components/nats runs NATS %s, want %s-alpine", image[1], nats)
		}
	}
	for _, path := range []string{"kubernetes/overlays/dev/cassandra.yaml", "kubernetes/overlays/witness/cassandra.yaml"} {
		if got := find(`serverVersion: (\S+)`, read(t, path)); got != cassandra {
			t.Errorf("%s runs Cassandra %s, want %s", path, got, cassandra)
		}
	}
	minor := find(`(?m)^go (\d+\.\d+)`, gomod)
	if image := find(`FROM golang:(\d+\.\d+)\.\d+-alpine AS build`, dockerfile); image != minor {
		t.Errorf("Dockerfile builds with Go %s, go.mod says %s", image, minor)
	}
}

// An instruction is one of a Dockerfile, its continuation lines joined.
type instruction struct{ word, rest string }

// parseDockerfile splits a Dockerfile into stages of instructions, each beginning with its FROM.
func parseDockerfile(text string) ([][]instruction, error) {
	known := strings.Fields("ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK RUN STOPSIGNAL USER WORKDIR")
	var stages [][]instruction
	joined := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if before, more := strings.CutSuffix(line, `\`); more {
			joined += before
			continue
		}
		word, rest, _ := strings.Cut(joined+line, " ")
		joined = ""
		if !slices.Contains(known, word) {
			return nil, fmt.Errorf("unknown instruction %q", word)
		}
		if word == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("%s before the first FROM", word)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], instruction{word, rest})
	}
	if joined != "" {
		return nil, fmt.Errorf("the file ends within an instruction: %q", joined)
	}
	return stages, nil
}

func TestDockerfile(t *testing.T) {
	stages, err := parseDockerfile(read(t, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one that builds and one that runs", len(stages))
	}
	one := func(stage []instruction, word string) string {
		t.Helper()
		var found []string
		for _, i := range stage {
			if i.word == word {
				found = append(found, i.rest)
			}
		}
		if len(found) != 1 {
			t.Fatalf("%d instructions %s in the stage of %s, want one", len(found), word, stage[0].rest)
		}
		return found[0]
	}
	build, final := stages[0], stages[1]

	static := slices.ContainsFunc(build, func(i instruction) bool {
		return i.word == "RUN" && strings.Contains(i.rest, "CGO_ENABLED=0 go build") && strings.Contains(i.rest, "./cmd/carillon")
	})
	if !static {
		t.Error("the first stage does not build a static carillon")
	}
	if user := one(final, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("USER %s, want numbers other than root's", user)
	}
	if check := one(final, "HEALTHCHECK"); !strings.Contains(check, "/healthz") {
		t.Errorf("HEALTHCHECK %s, want one of /healthz", check)
	}
	if entry := one(final, "ENTRYPOINT"); entry != `["/usr/local/bin/carillon"]` {
		t.Errorf("ENTRYPOINT %s, want the program itself: a shell would not pass signals on", entry)
	}
	var copied []string
	for _, i := range final {
		if i.word != "COPY" {
			continue
		}
		if !strings.HasPrefix(i.rest, "--from=build ") {
			t.Errorf("COPY %s: the final image takes from the build stage only", i.rest)
		}
		fields := strings.Fields(i.rest)
		copied = append(copied, fields[len(fields)-1])
	}
	if want := []string{"/usr/share/zoneinfo.zip", "/usr/local/bin/carillon"}; !slices.Equal(copied, want) {
		t.Errorf("the final image takes %q, want %q", copied, want)
	}
	if zones := one(final, "ENV"); zones != "ZONEINFO=/usr/share/zoneinfo.zip" {
		t.Errorf("ENV %s, want that Go finds the zones", zones)
	}
}
