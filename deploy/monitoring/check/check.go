// Package check holds what lies in deploy/monitoring together: that rules, tests, runbooks and
// dashboards name each other, and only metrics that METRICS.md has. It is a module of its own, so that
// the parser of PromQL is no dependency of Carillon.
package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// Metric is a metric of METRICS.md.
type Metric struct {
	Type   string // counter, gauge, histogram or summary
	Labels []string
}

var (
	metricLine  = regexp.MustCompile("^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([^|]*)\\|")
	metricLabel = regexp.MustCompile("`([a-z_]+)`")
	otherMetric = regexp.MustCompile("`([a-z0-9_]+)` \\((counter|gauge|histogram|summary)\\)")
)

// ReadMetrics reads METRICS.md.
func ReadMetrics(path string) (map[string]Metric, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Metric)
	for line := range strings.Lines(string(text)) {
		if parts := metricLine.FindStringSubmatch(line); parts != nil {
			m := Metric{Type: parts[2]}
			for _, l := range metricLabel.FindAllStringSubmatch(parts[3], -1) {
				m.Labels = append(m.Labels, l[1])
			}
			all[parts[1]] = m
			continue
		}
		for _, parts := range otherMetric.FindAllStringSubmatch(line, -1) {
			all[parts[1]] = Metric{Type: parts[2]}
		}
	}
	return all, nil
}

// scraped are the labels that Prometheus adds.
var scraped = []string{"cluster", "instance", "job", "pod"}

// series returns the metric that a series belongs to, its type and what labels it has.
func series(metrics map[string]Metric, name string) (kind string, with []string, ok bool) {
	if m, ok := metrics[name]; ok && m.Type != "histogram" {
		return m.Type, m.Labels, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, cut := strings.CutSuffix(name, suffix)
		if m, ok := metrics[base]; cut && ok && (m.Type == "histogram" || m.Type == "summary" && suffix != "_bucket") {
			with := slices.Clone(m.Labels)
			if suffix == "_bucket" {
				with = append(with, "le")
			}
			return "counter", with, true
		}
	}
	return "", nil, false
}

// ExprFaults returns what is wrong with an expression: it cannot be parsed, it names a metric or a
// label that does not exist, it takes the rate of what is no counter, or it adds up buckets without
// keeping le. Names with a colon are those of recording rules.
func ExprFaults(metrics map[string]Metric, recorded map[string]bool, expr string) (faults []string) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", expr, err)}
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)+" in "+expr) }
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			if strings.Contains(n.Name, ":") {
				if !recorded[n.Name] {
					fault("%s is recorded by no rule", n.Name)
				}
				return nil
			}
			if n.Name == "up" {
				return nil
			}
			kind, with, ok := series(metrics, n.Name)
			if !ok {
				fault("METRICS.md has no metric %q", n.Name)
				return nil
			}
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !slices.Contains(with, m.Name) && !slices.Contains(scraped, m.Name) {
					fault("%s has no label %s", n.Name, m.Name)
				}
			}
			rated := false
			for _, p := range path {
				if c, ok := p.(*parser.Call); ok && slices.Contains([]string{"rate", "increase", "irate"}, c.Func.Name) {
					rated = true
				}
			}
			if rated != (kind == "counter") {
				fault("%s is a %s: rate and increase are for counters, and counters for them", n.Name, kind)
			}
		case *parser.Call:
			if n.Func.Name != "histogram_quantile" {
				return nil
			}
			if sum, ok := n.Args[1].(*parser.AggregateExpr); !ok || sum.Without || !slices.Contains(sum.Grouping, "le") {
				fault("histogram_quantile wants an aggregation by le")
			}
		}
		return nil
	})
	return faults
}

// Rule is a rule of a file of rules.
type Rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
	File                     string `yaml:"-"`
}

// ReadRules reads all files of rules in dir.
func ReadRules(dir string) (rules []Rule, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		var content struct {
			Groups []struct{ Rules []Rule }
		}
		if err := readYAML(path, &content); err != nil {
			return nil, err
		}
		for _, g := range content.Groups {
			for _, r := range g.Rules {
				r.File = filepath.Base(path)
				rules = append(rules, r)
			}
		}
	}
	return rules, nil
}

// AlertTest is a test of alerts.
type AlertTest struct {
	Name   string
	Alerts []struct {
		Name string `yaml:"alertname"`
		Want []any  `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// ReadTests reads all tests of rules in dir.
func ReadTests(dir string) (tests []AlertTest, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		var content struct{ Tests []AlertTest }
		if err := readYAML(path, &content); err != nil {
			return nil, err
		}
		tests = append(tests, content.Tests...)
	}
	return tests, nil
}

func readYAML(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ReadRunbooks returns the sections of a page, by their headings.
func ReadRunbooks(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sections := make(map[string]string)
	for _, s := range strings.Split("\n"+string(text), "\n## ")[1:] {
		heading, body, _ := strings.Cut(s, "\n")
		sections[strings.TrimSpace(heading)] = body
	}
	return sections, nil
}
