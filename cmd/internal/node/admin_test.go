package node

import (
	"net/http"
	"testing"

	"carillon.dev/carillon/cmd/internal/config"
)

func TestProfilesHaveAListenerOfTheirOwn(t *testing.T) {
	cfg := config.Default()
	if at, stop, err := New(cfg, Options{}).admin(t.Context()); err != nil || at != "" {
		t.Errorf("without an address profiles are served at %q, error %v, want nowhere", at, err)
	} else {
		stop()
	}
	cfg.Admin.Listen = "127.0.0.1:0"
	at, stop, err := New(cfg, Options{}).admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := get(t, at+"cmdline"); got != http.StatusOK {
		t.Errorf("GET %scmdline: %d, want 200", at, got)
	}
	stop()
	if _, _, err := fetch(t.Context(), at); err == nil {
		t.Error("profiles are served after the stop")
	}
	w := newWorld(t, "a")
	n := start(t, "a", w.opener("a"), nil).up()
	if got, _ := get(t, n.url+"/debug/pprof/"); got != http.StatusNotFound {
		t.Errorf("GET /debug/pprof/ of the API: %d, want 404", got)
	}
}
