package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What the manifests scale on is there, on a node that has all roles. What they alert on are the
// rules of deploy/monitoring, which make alerts holds to METRICS.md, and TestMetricsPage that to
// the nodes.
func TestMetricsOfTheManifestsAreThere(t *testing.T) {
	named := regexp.MustCompile(`carillon_(?:dispatcher|executor|clock|config|queue|ring|cassandra)_[a-z_]+`)
	var names []string
	for path, least := range map[string]int{"keda/scaledobject.yaml": 5} {
		text, err := os.ReadFile(filepath.Join("../../../deploy/kubernetes/components", path))
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllString(string(text), -1)
		if len(found) < least {
			t.Errorf("%s names %d metrics, want %d and more", path, len(found), least)
		}
		names = append(names, found...)
	}
	w := newWorld(t, "a")
	r := start(t, "a", w.opener("a"), slog.New(slog.DiscardHandler)).up()
	for _, name := range names {
		// One that has no values yet is not gathered; but no other can have its name.
		other := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "of this test"})
		if err := r.node.reg.Register(other); err == nil {
			t.Errorf("the manifests name %s, which no node has", name)
		}
	}
}
