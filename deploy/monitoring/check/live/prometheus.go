package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// prom is a Prometheus that scrapes the nodes every second and evaluates the rules as often.
type prom struct {
	*process
	url string
}

func startPrometheus(ctx context.Context, o options, dir string, targets []string) (*prom, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	rules, err := filepath.Abs(filepath.Join(o.top, "rules", "*.yaml"))
	if err != nil {
		return nil, err
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name":       "carillon",
			"static_configs": []any{map[string]any{"targets": targets, "labels": map[string]string{"cluster": o.system}}},
		}},
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	p := &prom{url: "http://127.0.0.1:" + port}
	p.process, err = start(dir, "prometheus", o.prometheus, "--config.file="+path, "--web.listen-address=127.0.0.1:"+port,
		"--storage.tsdb.path="+filepath.Join(dir, "prometheus"), "--log.level=warn")
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, p.url+"/-/ready"); err != nil {
		return nil, fmt.Errorf("%w (stopped: %v)", err, p.stop())
	}
	return p, nil
}

// rest waits, unless it ends meanwhile.
func (p *prom) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return fmt.Errorf("prometheus has ended\n%s", p.tail())
	case <-time.After(d):
		return nil
	}
}
