package node

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

func TestProfilesHaveAListenerOfTheirOwn(t *testing.T) {
	cfg := config.Default()
	if at, stop, err := New(cfg, Options{}).serveProfiles(t.Context()); err != nil || at != "" {
		t.Errorf("without an address profiles are served at %q, error %v, want nowhere", at, err)
	} else {
		stop()
	}
	cfg.Admin.Listen = "127.0.0.1:0"
	at, stop, err := New(cfg, Options{}).serveProfiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := get(t, at+"cmdline"); got != http.StatusOK {
		t.Errorf("GET %scmdline: %d, want 200", at, got)
	}
	for host, want := range map[string]int{
		"localhost:6060": http.StatusOK, "LocalHost": http.StatusOK, "127.0.0.1:6060": http.StatusOK, "[::1]:6060": http.StatusOK, "[::1]": http.StatusOK,
		"rebound.example.org:6060": http.StatusForbidden, "localhost.example.org": http.StatusForbidden, "1.2.3.4.example.org": http.StatusForbidden,
	} {
		if got := statusFor(t, at+"cmdline", host); got != want {
			t.Errorf("GET %scmdline of the host %s: %d, want %d", at, host, got, want)
		}
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

// statusFor returns the status of a GET of url that names another host.
func statusFor(t *testing.T, url, host string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Close = host, true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestProfilesForOtherMachinesAreRefusedUnlessAllowed(t *testing.T) {
	cfg := config.Default()
	cfg.Admin.Listen = "0.0.0.0:0"
	if at, _, err := New(cfg, Options{}).serveProfiles(t.Context()); err == nil || !strings.Contains(err.Error(), "admin.allow_remote") {
		t.Errorf("admin on %s without leave: serves at %q, %v; want an error", cfg.Admin.Listen, at, err)
	}
}

// warnings is a log that keeps its warnings.
type warnings struct {
	slog.Handler
	mu    sync.Mutex
	texts []string
}

func (*warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		w.texts = append(w.texts, r.Message)
	}
	return nil
}

func TestWhatIsLeftOpenIsWarnedOf(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*config.Config)
		want   string
	}{
		{"defaults", func(*config.Config) {}, ""},
		{"remote profiles", func(c *config.Config) { c.Admin = config.Admin{Listen: ":6060", AllowRemote: true} }, "profiles are served to other machines"},
		{"open gossip", func(c *config.Config) { c.Ring.Listen = "0.0.0.0:7946" }, "ring.key is not set"},
		{"other regions without TLS", func(c *config.Config) {
			c.Node.Region, c.Regions.API = "eu", []string{"eu=http://eu.test", "us=https://us.test", "us=http://us.test:8080"}
		}, "regions.api has URLs without TLS"},
		{"other regions by TLS, or on this machine", func(c *config.Config) {
			c.Node.Region, c.Regions.API = "eu", []string{"eu=http://eu.test", "us=https://us.test", "us=http://127.0.0.1:8080", "ap=http://localhost", "ap=http://[::1]:80"}
		}, ""},
		{"gossip with a key", func(c *config.Config) { c.Ring.Listen, c.Ring.Key = "0.0.0.0:7946", "x" }, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config.Default()
			row.change(&cfg)
			w := &warnings{Handler: slog.DiscardHandler}
			New(cfg, Options{Logger: slog.New(w)}).warnOfOpenSettings()
			if got := strings.Join(w.texts, "; "); (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("warned of %q, want %q", got, row.want)
			}
		})
	}
}

// Jobs may call the loopback interface here, but not the profiles of their node.
func TestJobsDoNotReachTheProfiles(t *testing.T) {
	r := startWith(t, "a", newWorld(t, "a").opener("a"), nil, func(c *config.Config) { c.Admin.Listen = "127.0.0.1:0" }).up()
	at := r.node.profiles.String()
	if got, _ := get(t, "http://"+at+"/debug/pprof/cmdline"); got != http.StatusOK {
		t.Fatalf("GET of the profiles: %d, want 200", got)
	}
	run := r.awaitState(r.create("http://"+at+"/debug/pprof/cmdline", time.Time{}).ID, schema.StateFailed)
	if len(run.Attempts) != 1 || !strings.Contains(run.Attempts[0].Error, "address is not allowed") {
		t.Errorf("a run that calls the profiles: %+v, want one attempt, denied", run.Attempts)
	}
}
