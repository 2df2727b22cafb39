package check

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// Runbooks is where the annotation runbook_url of every alert begins in the rules that are
// committed: the page, by its path in the repository. Its rest is "#" and the alert's name in small
// letters.
const Runbooks = "deploy/monitoring/RUNBOOKS.md"

// WriteRules writes the rules of a folder into another, as files for Prometheus and, in its folder
// kubernetes, as rules.yaml for the Prometheus operator. In them the runbooks are at an absolute
// URL: what runbook_url begins with.
func WriteRules(from, to, runbooks string) error {
	if u, err := url.Parse(runbooks); err != nil || u.Scheme == "" || u.Host == "" || u.Fragment != "" {
		return fmt.Errorf("runbooks are at %q, want an absolute URL without a fragment", runbooks)
	}
	if err := os.MkdirAll(filepath.Join(to, "kubernetes"), 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no rules in %s", from)
	}
	if err != nil {
		return err
	}
	var faults []error
	write := func(name string, text []byte) {
		text = bytes.ReplaceAll(text, []byte(" "+Runbooks+"#"), []byte(" "+runbooks+"#"))
		faults = append(faults, os.WriteFile(filepath.Join(to, name), text, 0o644))
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		write(filepath.Base(path), text)
	}
	object, err := PrometheusRule(from)
	if err != nil {
		return err
	}
	write(filepath.Join("kubernetes", "rules.yaml"), object)
	return errors.Join(faults...)
}
