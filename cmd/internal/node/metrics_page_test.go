package node

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
	"carillon.dev/carillon/schema/homes"
)

var updateMetrics = flag.Bool("update", false, "write deploy/monitoring/METRICS.md anew")

const metricsPage = "../../../deploy/monitoring/METRICS.md"

// label is what a label of our metrics may be.
type label struct {
	meaning string
	most    int  // values on one node
	named   bool // the page names the values, since all of them are there from the start
}

// labels are the labels that a metric may have. None of them grows with tenants, jobs, runs or
// targets.
var labels = map[string]label{
	"action":    {"what an operation does", 12, true},
	"cause":     {"why a run was missed", 8, true},
	"event":     {"what was done with a dead letter", 8, true},
	"fate":      {"what became of a line", 2, true},
	"go":        {"version of Go", 1, false},
	"home":      {"a set of shards that one region serves; `regions.homes` names them", 16, false},
	"kind":      {"what an attempt calls, or why an entry exists", 12, true},
	"lane":      {"number of a NATS stream, from 0; `nats.lanes` says how many", 64, false},
	"method":    {"HTTP method of a route, `any` for none", 6, false},
	"outcome":   {"how it ended", 8, true},
	"pool":      {"labels of executors that have the same (`executor.labels`), such as `gpu=true,zone=a`: as many as there are different ones", 64, false},
	"priority":  {"of a run", 4, true},
	"reason":    {"why it was", 9, true},
	"region":    {"another region; `regions.datacenters` names them", 15, false},
	"result":    {"what came of it", 8, true},
	"role":      {"of a node", 3, true},
	"route":     {"path of the API with its parameters' names, `none` for unknown ones", 150, false},
	"shard":     {"that this node dispatches; all nodes together have as many as the cluster", 4096, false},
	"sink":      {"where a message to a tenant goes", len(schema.NotificationSinks), true},
	"statement": {"name of a statement of CQL", 150, false},
	"status":    {"status of HTTP; of a member of the ring: `left` or `dead`", 30, false},
	"step":      {"of the dispatcher's loop", 30, true},
	"table":     {"of the store", 40, false},
	"tenant":    {"the ten with the largest backlog, or the 50 that did most of late; `*` = all others together", 51, false},
	"version":   {"of Carillon", 1, false},
	"vote":      {"of a host on the clock of this node", 3, true},
	"what":      {"what became of it", 6, true},
}

// withoutSeries are the metrics that have no series before something happens.
var withoutSeries = map[string]dto.MetricType{
	"carillon_dead_letters_waiting":                dto.MetricType_GAUGE,
	"carillon_dispatcher_due_waiting":              dto.MetricType_GAUGE,
	"carillon_dispatcher_oldest_wait_seconds":      dto.MetricType_GAUGE,
	"carillon_dispatcher_pool_due_waiting":         dto.MetricType_GAUGE,
	"carillon_dispatcher_pool_oldest_wait_seconds": dto.MetricType_GAUGE,
	"carillon_dispatcher_pool_stream_waiting":      dto.MetricType_GAUGE,
	"carillon_dispatcher_settled_lag_seconds":      dto.MetricType_GAUGE,
	"carillon_dispatcher_stream_depth":             dto.MetricType_GAUGE,
	"carillon_dispatcher_stream_waiting":           dto.MetricType_GAUGE,
	"carillon_dispatcher_tenant_waiting":           dto.MetricType_GAUGE,
	"carillon_executor_pool_slots":                 dto.MetricType_GAUGE,
	"carillon_executor_pool_slots_busy":            dto.MetricType_GAUGE,
	"carillon_executor_slot_waiting":               dto.MetricType_GAUGE,
	"carillon_http_request_duration_seconds":       dto.MetricType_HISTOGRAM,
	"carillon_http_requests_total":                 dto.MetricType_COUNTER,
	"carillon_store_unreadable_rows_total":         dto.MetricType_COUNTER,
}

// family is a metric as the page lists it.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string
	values     map[string]map[string]bool // by label
}

// everything returns a registry with all metrics that a node can have: those of a whole node on
// embedded parts, of the ring and of Cassandra.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := cassandra.RegisterMetrics(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.New(ring.Config{Name: "a", Bind: "127.0.0.1:0", Roles: config.Default().Roles, Shards: 8, Logger: slog.New(slog.DiscardHandler), Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	registerOfRegions(t, reg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Node.Name = "dev"
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, url: "http://" + l.Addr().String(), ready: make(chan string, 1), ended: make(chan error, 1), end: cancel}
	n := New(cfg, Options{
		Opener: Embedded(cfg, Place{Dir: t.TempDir()}, "test", log, reg), Version: "test", Logger: log, Registry: reg,
		Listener: l.(*net.TCPListener), Ready: func(api string) { r.ready <- api },
	})
	go func() { r.ended <- n.Run(ctx) }()
	t.Cleanup(r.stop)
	r.up()
	newEventIntake(n) // as on NATS outside of the process
	if status, _ := get(t, r.url+"/v1/jobs"); status != http.StatusOK {
		t.Fatalf("GET /v1/jobs answers %d", status)
	}
	return reg
}

// registerOfRegions registers the metrics of a node of one of two regions.
func registerOfRegions(t *testing.T, reg *prometheus.Registry) {
	t.Helper()
	two, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 0}}}, {Name: "us", Shards: []schema.ShardRange{{First: 1, Last: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := homes.New(homes.Config{Region: "eu", Homes: two, Store: worldEpochs{}, Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	if _, err := forward.New(forward.Config{Region: "eu", APIs: map[string][]string{"us": {"http://us.test"}}, Registerer: reg}); err != nil {
		t.Fatal(err)
	}
}

var descForm = regexp.MustCompile(`^Desc\{fqName: ("[^"]*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*?)\}, variableLabels: \{(.*)\}\}$`)

// describe returns the families of a registry in the order of their names.
func describe(t *testing.T, reg *prometheus.Registry) []*family {
	t.Helper()
	byName := make(map[string]*family)
	descs := make(chan *prometheus.Desc)
	go func() {
		reg.Describe(descs)
		close(descs)
	}()
	for d := range descs {
		parts := descForm.FindStringSubmatch(d.String())
		if parts == nil {
			t.Errorf("not understood: %s", d)
			continue
		}
		name, err := strconv.Unquote(parts[1])
		help, err2 := strconv.Unquote(parts[2])
		if err != nil || err2 != nil {
			t.Errorf("not understood: %s", d)
			continue
		}
		f := cmp.Or(byName[name], &family{name: name, help: help, kind: -1, values: make(map[string]map[string]bool)})
		byName[name] = f
		for _, l := range strings.Split(parts[4], ",") {
			if l != "" && f.values[l] == nil {
				f.values[l] = make(map[string]bool)
			}
		}
	}
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gathered {
		f := byName[g.GetName()]
		f.kind = g.GetType()
		for _, m := range g.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.values[l.GetName()] == nil {
					f.values[l.GetName()] = make(map[string]bool)
				}
				f.values[l.GetName()][l.GetValue()] = true
			}
		}
	}
	families := slices.Collect(maps.Values(byName))
	slices.SortFunc(families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	for _, f := range families {
		f.labels = slices.Sorted(maps.Keys(f.values))
		if kind, ok := withoutSeries[f.name]; ok {
			if f.kind >= 0 && f.kind != kind {
				t.Errorf("%s is a %v, and listed as a %v", f.name, f.kind, kind)
			}
			f.kind = kind
		}
		if f.kind < 0 {
			t.Errorf("%s has no series at the start: it belongs into withoutSeries", f.name)
		}
	}
	return families
}

// labelFaults returns what is wrong with the labels of a family.
func labelFaults(f *family) (faults []string) {
	for _, l := range f.labels {
		known, ok := labels[l]
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("%s has the label %s, which may grow: labels says what may be one", f.name, l))
		case len(f.values[l]) > known.most:
			faults = append(faults, fmt.Sprintf("%s has %d values of %s, want at most %d", f.name, len(f.values[l]), l, known.most))
		}
	}
	return faults
}

// writePage writes the page.
func writePage(w io.Writer, families []*family) {
	_, _ = fmt.Fprint(w, `# Metrics

Every metric that a node serves at `+"`/metrics`"+`, in the order of their names. Generated from the
registry; after a change: `+"`go test ./cmd/internal/node -run TestMetricsPage -update`"+`.

* Times are in seconds. Counters count since the start of the process.
* `+"`carillon_cassandra_*`, `carillon_ring_*`"+` and `+"`carillon_events_refused_total`"+` exist in clusters only, not in
  `+"`carillon dev`"+`.
* `+"`carillon_region_*`"+` exist where there are regions.
* `+"`carillon_dispatcher_*`"+` and `+"`carillon_executor_*`"+` exist on nodes of that role.
* A histogram gives `+"`_bucket`, `_sum` and `_count`"+`. That of lateness is also a native one, for servers that
  take those; such a server keeps the buckets only with `+"`always_scrape_classic_histograms: true`"+`
  (`+"`scrape_classic_histograms`"+` before Prometheus 3.0).

| metric | type | labels | meaning |
|---|---|---|---|
`)
	others := make([]string, 0)
	for _, f := range families {
		if !strings.HasPrefix(f.name, "carillon_") {
			others = append(others, fmt.Sprintf("`%s` (%s)", f.name, kindName(f.kind)))
			continue
		}
		described := make([]string, len(f.labels))
		for i, l := range f.labels {
			described[i] = "`" + l + "`"
			if labels[l].named && len(f.values[l]) > 0 {
				described[i] += ": " + strings.Join(slices.Sorted(maps.Keys(f.values[l])), ", ")
			}
		}
		_, _ = fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", f.name, kindName(f.kind), strings.Join(described, "; "), strings.ReplaceAll(f.help, "|", `\|`))
	}
	_, _ = fmt.Fprint(w, "\n## Labels\n\nNone names a job, a run or a target, so the number of series does not grow with what tenants do.\n\n| label | meaning | at most, on a node |\n|---|---|---|\n")
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		_, _ = fmt.Fprintf(w, "| `%s` | %s | %d |\n", l, labels[l].meaning, labels[l].most)
	}
	_, _ = fmt.Fprintf(w, "\n## Go and process\n\nThose of Prometheus' client library:\n%s.\n", strings.Join(others, ", "))
}

func kindName(k dto.MetricType) string { return strings.ToLower(k.String()) }

// TestMetricsPage: the page of all metrics is that of the registry, each metric is named and
// explained as Prometheus wants it, and has only labels whose values are bounded.
func TestMetricsPage(t *testing.T) {
	reg := everything(t)
	families := describe(t, reg)
	ours := 0
	for _, f := range families {
		if strings.HasPrefix(f.name, "carillon_") {
			ours++
			for _, fault := range labelFaults(f) {
				t.Error(fault)
			}
		}
	}
	if ours < 80 {
		t.Errorf("%d metrics of ours were found, want 80 or more", ours)
	}
	lint(t, reg)
	var page bytes.Buffer
	writePage(&page, families)
	if *updateMetrics {
		if err := os.WriteFile(metricsPage, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, page.Bytes()) {
		t.Errorf("deploy/monitoring/METRICS.md is not what the registry has: run this test with -update\n%s", firstDifference(string(committed), page.String()))
	}
}

// lint holds the metrics to the rules of promtool check metrics.
func lint(t *testing.T, reg prometheus.Gatherer) {
	t.Helper()
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	gathered = slices.DeleteFunc(gathered, func(g *dto.MetricFamily) bool { return !strings.HasPrefix(g.GetName(), "carillon_") })
	problems, err := promlint.NewWithMetricFamilies(gathered).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// firstDifference returns the first line in which two texts differ.
func firstDifference(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d\ncommitted: %s\nnow:       %s", i+1, x, y)
		}
	}
	return "no line differs"
}

// TestLabelsThatGrowAreFound: a label that is not known, and one with too many values.
func TestLabelsThatGrowAreFound(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "carillon_x_total", Help: `Of "x|y".`}, []string{"job", "tenant"})
	reg.MustRegister(c)
	for i := range 10_000 {
		c.WithLabelValues("a", strconv.Itoa(i))
	}
	families := describe(t, reg)
	if len(families) != 1 || families[0].kind != dto.MetricType_COUNTER || families[0].help != `Of "x|y".` {
		t.Fatalf("describe = %+v", families)
	}
	if faults := labelFaults(families[0]); len(faults) != 2 {
		t.Errorf("labelFaults = %q, want one of job and one of tenant", faults)
	}
}
