package alerts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/wait"
)

// A real Prometheus tells what fires, and that rules and targets work.
func TestWatch(t *testing.T) {
	program, err := Available("../..")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("LEFT OUT: %v", err)
	}
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "carillon_build_info{version=\"v\"} 1\n")
	}))
	defer node.Close()
	rules, dir := t.TempDir(), t.TempDir()
	const text = `groups:
  - name: g
    rules:
      - alert: Up
        expr: up == 1
        for: 20s
        labels: {severity: page}
      - alert: Down
        expr: up == 0
        labels: {severity: ticket}
`
	if err := os.WriteFile(filepath.Join(rules, "r.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	o := Options{
		Program: program, Rules: rules, Dir: dir, Targets: []string{strings.TrimPrefix(node.URL, "http://")},
		Factor: 10, HTTP: &http.Client{Transport: transport},
	}
	w, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.End(); err != nil {
			t.Error(err)
		}
	}()
	var fired []Fired
	ok, err := wait.Poll(t.Context(), 200*time.Millisecond, time.Now().Add(2*time.Minute), func() (bool, error) {
		fired, err = w.Fired(t.Context()) // until it has scraped it says so
		return err == nil && len(fired) > 0, nil
	})
	if err != nil || !ok || len(fired) != 1 || fired[0].Alert != "Up" || fired[0].Severity != "page" || fired[0].First.Before(w.began) {
		t.Fatalf("Fired = %v, %v, %t, want Up alone", fired, err, ok)
	}
	w.o.Targets = append(w.o.Targets, "another")
	if _, err := w.Fired(t.Context()); err == nil || !strings.Contains(err.Error(), "of the 2 nodes") {
		t.Errorf("Fired with a node that is not scraped = %v, want an error", err)
	}
}

func TestStartWithoutRules(t *testing.T) {
	if _, err := Start(t.Context(), Options{Rules: t.TempDir(), Dir: t.TempDir(), Factor: 1}); err == nil || !strings.Contains(err.Error(), "no rules") {
		t.Errorf("Start = %v, want that there are no rules", err)
	}
}
