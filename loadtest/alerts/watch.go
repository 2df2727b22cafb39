package alerts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/process"
)

const (
	// scrapeEvery is how often nodes are scraped and rules evaluated.
	scrapeEvery = "2s"
	// readyWithin bounds the start of Prometheus.
	readyWithin = time.Minute
	askTimeout  = 10 * time.Second
)

// ready is what Prometheus says when it serves.
var ready = regexp.MustCompile(`(?m)Server is (ready) to receive web requests`)

// Options say what is watched.
type Options struct {
	Program string   // prometheus
	Rules   string   // folder with rules
	Dir     string   // where its data, configuration and log go; it must exist
	Targets []string // "host:port" of each node
	Factor  int      // by which the rules are faster
	HTTP    *http.Client
}

// Available returns the program prometheus, by its name or in a folder of the repository at top,
// and an error that says how to get it.
func Available(top string) (string, error) {
	for _, name := range []string{"prometheus", filepath.Join(top, ".local", "prometheus", "usr", "bin", "prometheus")} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("alerts need the program prometheus (Debian: prometheus; bash .ci/run install fetches it)")
}

// A Watch is a Prometheus that scrapes nodes and evaluates the rules.
type Watch struct {
	o      Options
	url    string
	server *process.Server
	began  time.Time
}

// Start starts Prometheus and returns when it serves. The caller must end it.
func Start(ctx context.Context, o Options) (w *Watch, err error) {
	dir := filepath.Join(o.Dir, "prometheus")
	if err := writeFaster(o.Rules, filepath.Join(dir, "rules"), o.Factor); err != nil {
		return nil, err
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": scrapeEvery, "scrape_timeout": scrapeEvery, "evaluation_interval": scrapeEvery},
		"rule_files": []string{filepath.Join(dir, "rules", "*.yaml")},
		"scrape_configs": []any{map[string]any{
			"job_name": "carillon", "static_configs": []any{map[string]any{"targets": o.Targets}},
		}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "prometheus.yaml"), config, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("configure Prometheus: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	w = &Watch{o: o, url: "http://" + address}
	w.server, err = process.StartServer(ctx, o.Program, []string{
		"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--web.listen-address=" + address,
		"--storage.tsdb.path=" + filepath.Join(dir, "data"),
	}, filepath.Join(dir, "log"), ready, readyWithin)
	if err != nil {
		return nil, err
	}
	w.began = time.Now()
	return w, nil
}

// writeFaster writes the rules of a folder into another, faster.
func writeFaster(from, to string, factor int) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("faster rules: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no rules in %s", from)
	}
	if err != nil {
		return fmt.Errorf("faster rules: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file) // #nosec G304 -- of the repository
		if err != nil {
			return fmt.Errorf("faster rules: %w", err)
		}
		faster, err := Faster(string(text), factor)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(faster), 0o600); err != nil {
			return fmt.Errorf("faster rules: %w", err)
		}
	}
	return nil
}

// freeAddress returns an address of the loopback interface whose port is free now.
func freeAddress() (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// End ends Prometheus.
func (w *Watch) End() error { return w.server.End() }

// Fired returns the alerts that fired since the start, the first one first. It fails if rules could
// not be evaluated, or nodes not be scraped: then that nothing fired would say nothing.
func (w *Watch) Fired(ctx context.Context) ([]Fired, error) {
	if err := w.works(ctx); err != nil {
		return nil, err
	}
	span := strconv.Itoa(int(time.Since(w.began).Seconds())+1) + "s"
	const by, firing = "min by (alertname, severity) ", `ALERTS{alertstate="firing"}`
	first, err := w.query(ctx, by+"(min_over_time(timestamp("+firing+")["+span+":"+scrapeEvery+"]))")
	if err != nil {
		return nil, err
	}
	counts, err := w.query(ctx, "max by (alertname, severity) (count_over_time(("+firing+")["+span+":"+scrapeEvery+"]))")
	if err != nil {
		return nil, err
	}
	every, err := time.ParseDuration(scrapeEvery)
	if err != nil {
		return nil, err
	}
	var all []Fired
	for _, s := range first {
		f := Fired{Alert: s.labels["alertname"], Severity: s.labels["severity"], First: time.Unix(0, int64(s.value*float64(time.Second))).UTC()}
		for _, c := range counts {
			if c.labels["alertname"] == f.Alert && c.labels["severity"] == f.Severity {
				f.For = time.Duration(c.value) * every
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Fired) int { return a.First.Compare(b.First) })
	return all, nil
}

// works reports rules that cannot be evaluated, and targets that were never scraped.
func (w *Watch) works(ctx context.Context) error {
	var said struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Type, Health, LastError string }
			}
		}
	}
	if err := w.ask(ctx, "/api/v1/rules", nil, &said); err != nil {
		return err
	}
	alerting := 0
	for _, g := range said.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				return fmt.Errorf("the rule %s fails: %s", r.Name, r.LastError)
			}
			if r.Type == "alerting" {
				alerting++
			}
		}
	}
	if alerting == 0 {
		return errors.New("no alerts are in force")
	}
	span := strconv.Itoa(int(time.Since(w.began).Seconds())+1) + "s"
	scraped, err := w.query(ctx, "count(count by (instance) (count_over_time(carillon_build_info["+span+"])))")
	if err != nil {
		return err
	}
	if len(scraped) != 1 || int(scraped[0].value) != len(w.o.Targets) {
		return fmt.Errorf("scraped are %v of the %d nodes %v", scraped, len(w.o.Targets), w.o.Targets)
	}
	return nil
}

// A sample is one series of an answer.
type sample struct {
	labels map[string]string
	value  float64
}

// query asks an expression of now.
func (w *Watch) query(ctx context.Context, expr string) ([]sample, error) {
	var said struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := w.ask(ctx, "/api/v1/query", url.Values{"query": {expr}}, &said); err != nil {
		return nil, err
	}
	var all []sample
	for _, r := range said.Data.Result {
		text, _ := r.Value[1].(string)
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("ask Prometheus: %s: %w", expr, err)
		}
		all = append(all, sample{r.Metric, n})
	}
	return all, nil
}

func (w *Watch) ask(ctx context.Context, path string, form url.Values, into any) error {
	q := api.Request{URL: w.url + path, Timeout: askTimeout}
	if form != nil {
		q.URL += "?" + form.Encode()
	}
	if err := api.AskJSON(ctx, w.o.HTTP, q, into); err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	return nil
}
