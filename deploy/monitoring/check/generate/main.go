// Command generate writes deploy/monitoring/dashboards anew, and the rules for the Prometheus
// operator in deploy/kubernetes. With -runbooks it writes the rules alone, into a folder. It is run
// in deploy/monitoring/check.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"carillon.dev/carillon/deploy/monitoring/check"
	"carillon.dev/carillon/deploy/monitoring/check/dashboards"
)

func main() {
	runbooks := flag.String("runbooks", "", "the URL that the runbooks are at: write rules that lead there, and nothing else")
	out := flag.String("out", "", "with -runbooks: the folder that the rules are written into")
	flag.Parse()
	run := func() error { return errors.Join(generate(filepath.Join("..", "dashboards")), generateRules()) }
	if *runbooks != "" || *out != "" {
		run = func() error { return check.WriteRules(filepath.Join("..", "rules"), *out, *runbooks) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range dashboards.All() {
		content, err := d.Render()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.UID+".json"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func generateRules() error {
	content, err := check.PrometheusRule(filepath.Join("..", "rules"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("..", check.KubernetesRules), content, 0o644)
}
