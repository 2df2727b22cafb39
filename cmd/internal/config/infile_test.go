package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// held writes a file with a value, and returns its path.
func held(t *testing.T, value string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const someKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func TestValuesLieInFilesOfTheirOwn(t *testing.T) {
	ring, password, keys := held(t, someKey+"\n"), held(t, " pass word \r\n"), held(t, "b:"+someKey+"\n\n a:"+someKey+" \n")
	path := write(t, good+"ring: {key_file: "+ring+"}\nsecrets: {keys_file: "+keys+"}\n")
	source := Source{File: path, Environ: []string{"CARILLON_CASSANDRA_PASSWORD_FILE=" + password, "CARILLON_NATS_TOKEN_FILE=", "CARILLON_NODE_NAME_FILE=" + ring}}
	c, files, err := source.Load()
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if c.Ring.Key != someKey || c.Cassandra.Password != " pass word " || c.NATS.Token != "" {
		t.Errorf("Load: ring.key %q, cassandra.password %q, nats.token %q; want what lies in the files, without ends of lines", c.Ring.Key, c.Cassandra.Password, c.NATS.Token)
	}
	if want := []string{"b:" + someKey, "a:" + someKey}; !slices.Equal(c.Secrets.Keys, want) {
		t.Errorf("Load: secrets.keys %q, want an entry a line: %q", c.Secrets.Keys, want)
	}
	if c.Node.Name == someKey {
		t.Error("Load: node.name comes from a file, and is no key that can")
	}
	if slices.Sort(files); !slices.Equal(files, slices.Sorted(slices.Values([]string{path, ring, password, keys}))) {
		t.Errorf("Load read %q, want the configuration and the three files that it names", files)
	}
}

func TestTheEnvironmentOverridesAFileOfTheFile(t *testing.T) {
	path := write(t, good+"cassandra: {hosts: [a], password_file: "+held(t, "from the file")+"}\n")
	path = write(t, strings.Replace(read(t, path), "cassandra: {hosts: [127.0.0.1]}\n", "", 1))
	for _, row := range []struct{ variable, want string }{
		{"CARILLON_CASSANDRA_PASSWORD=from the environment", "from the environment"},
		{"CARILLON_CASSANDRA_PASSWORD_FILE=" + held(t, "from its file"), "from its file"},
		{"CARILLON_NODE_NAME=n", "from the file"},
	} {
		if c, err := Load(path, []string{row.variable}, nil); err != nil || c.Cassandra.Password != row.want {
			t.Errorf("Load with %s: password %q, %v; want %q", row.variable, c.Cassandra.Password, err, row.want)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFaultsOfFilesWithValues(t *testing.T) {
	secret := held(t, "hunter2")
	for name, row := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"none":                {"ring: {key_file: /no/such}\n", nil, "ring.key_file: open /no/such: no such file"},
		"empty":               {"ring: {key_file: " + held(t, "\n") + "}\n", nil, "is empty"},
		"too large":           {"ring: {key_file: " + held(t, strings.Repeat("x", maxValueFile+1)) + "}\n", nil, "is larger than"},
		"no text":             {"ring: {key_file: " + held(t, "a\x00b") + "}\n", nil, "is no text"},
		"a list of files":     {"ring: {key_file: [a]}\n", nil, "ring.key_file: is a list, want a text"},
		"twice in the file":   {"ring: {key: x, key_file: " + secret + "}\n", nil, "ring.key and ring.key_file: only one may be set"},
		"twice around":        {"", []string{"CARILLON_RING_KEY=x", "CARILLON_RING_KEY_FILE=" + secret}, "CARILLON_RING_KEY_FILE and CARILLON_RING_KEY in the environment: only one may be set"},
		"a value with faults": {"", []string{"CARILLON_RING_KEY_FILE=" + secret}, "ring.key: is not the base64 of"},
		"of another key":      {"log: {level_file: " + secret + "}\n", nil, "log.level_file: there is no such key"},
	} {
		_, err := Load(write(t, good+row.file), row.environ, nil)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: Load = %v, want %q in it", name, err, row.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Load repeats a secret: %v", name, err)
		}
	}
}

func TestChangesNameTheKeysThatDiffer(t *testing.T) {
	a, b := valid(), valid()
	if got := Changes(a, b); len(got) != 0 {
		t.Errorf("Changes of the same: %q, want none", got)
	}
	b.Ring.Seeds = []string{} // as good as none
	b.Log.Level, b.Cassandra.TLS.Enabled, b.Roles, b.Secrets.Keys = "debug", true, []string{Bucketer}, []string{"k"}
	if got, want := Changes(a, b), []string{"cassandra.tls.enabled", "log.level", "roles", "secrets.keys"}; !slices.Equal(got, want) {
		t.Errorf("Changes: %q, want %q", got, want)
	}
}
