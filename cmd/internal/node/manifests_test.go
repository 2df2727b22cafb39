package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the manifests alert and scale on is there, on every node that has all roles.
func TestMetricsOfTheManifestsAreThere(t *testing.T) {
	w := newWorld(t, "a")
	r := start(t, "a", w.opener("a"), slog.New(slog.DiscardHandler)).up()
	families, err := r.node.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, f := range families {
		there[f.GetName()] = true
	}
	named := regexp.MustCompile(`carillon_(?:dispatcher|executor|clock|config|queue|ring|cassandra)_[a-z_]+`)
	for path, least := range map[string]int{"monitoring/rules.yaml": 8, "keda/scaledobject.yaml": 3} {
		text, err := os.ReadFile(filepath.Join("../../../deploy/kubernetes/components", path))
		if err != nil {
			t.Fatal(err)
		}
		names := named.FindAllString(string(text), -1)
		if len(names) < least {
			t.Errorf("%s names %d metrics, want %d and more", path, len(names), least)
		}
		for _, name := range names {
			if !there[name] && !there[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s names %s, which no node has", path, name)
			}
		}
	}
}
