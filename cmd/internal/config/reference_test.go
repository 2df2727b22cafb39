package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// reference is the file that explains every key.
const reference = "../../../deploy/carillon.yaml"

// fields calls see for every key below a struct.
func fields(prefix string, v reflect.Value, see func(key string, value any)) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("koanf")
		if f := v.Field(i); f.Kind() == reflect.Struct {
			fields(key+".", f, see)
		} else {
			see(key, f.Interface())
		}
	}
}

// explained returns, for each key of a YAML document, whether a comment stands above or beside it.
func explained(prefix string, n *yaml.Node, into map[string]bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.MappingNode {
			explained(prefix+name.Value+".", value, into)
			continue
		}
		into[prefix+name.Value] = name.HeadComment+name.LineComment+value.LineComment != ""
	}
}

// The reference explains every key and sets each to its default, so it holds no secret.
func TestReferenceNamesEveryKeyAtItsDefault(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	explained("", doc.Content[0], has)
	got, err := Load(reference, nil, nil)
	if err != nil {
		t.Fatalf("Load(%s): %v, want that it is valid", reference, err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	// no default
	want.Node.Name, want.Cassandra.Hosts, want.NATS.URLs = host, got.Cassandra.Hosts, got.NATS.URLs
	values := make(map[string]any)
	fields("", reflect.ValueOf(got), func(key string, value any) { values[key] = value })
	keys := 0
	fields("", reflect.ValueOf(want), func(key string, value any) {
		keys++
		if comment, ok := has[key]; !ok {
			t.Errorf("%s does not name %s", reference, key)
		} else if !comment {
			t.Errorf("%s says nothing of %s", reference, key)
		}
		if !cmp.Equal(values[key], value) && !(reflect.ValueOf(value).Kind() == reflect.Slice && reflect.ValueOf(value).Len() == 0 && reflect.ValueOf(values[key]).Len() == 0) {
			t.Errorf("%s sets %s to %v, want the default %v", reference, key, values[key], value)
		}
	})
	if keys < 30 || len(has) != keys {
		t.Errorf("%s has %d keys, Config %d", reference, len(has), keys)
	}
	for line := range strings.Lines(string(text)) {
		if len(line) > 140 {
			t.Errorf("%s has a line of %d bytes: %q", reference, len(line), line)
		}
	}
}
