package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestCollectorIsWhole: what the pipelines of the example for the collector name exists there, and
// everything there is named; it takes spans where the README has them sent.
func TestCollectorIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "otel-collector.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Receivers, Processors, Exporters map[string]yaml.Node
		Service                          struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	traces, ok := c.Service.Pipelines["traces"]
	if !ok || len(traces.Receivers) == 0 || len(traces.Exporters) == 0 {
		t.Fatalf("the pipelines are %+v, want one of traces", c.Service.Pipelines)
	}
	for _, part := range []struct {
		what  string
		have  map[string]yaml.Node
		named []string
	}{{"receivers", c.Receivers, traces.Receivers}, {"processors", c.Processors, traces.Processors}, {"exporters", c.Exporters, traces.Exporters}} {
		for _, name := range part.named {
			if _, ok := part.have[name]; !ok {
				t.Errorf("%s: %s is named by the pipeline and not there", part.what, name)
			}
		}
		for name := range part.have {
			if !slices.Contains(part.named, name) {
				t.Errorf("%s: %s is there and named by no pipeline", part.what, name)
			}
		}
	}
	var otlp struct {
		Protocols struct{ HTTP struct{ Endpoint string } }
	}
	if node := c.Receivers["otlp"]; node.Decode(&otlp) != nil || otlp.Protocols.HTTP.Endpoint != "0.0.0.0:4318" {
		t.Errorf("it takes spans at %q, want port 4318", otlp.Protocols.HTTP.Endpoint)
	}
}
