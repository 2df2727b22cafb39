package notifications

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// alertmanager returns the path of Alertmanager. Without it the test is left out, which fails where
// CI runs it: bash .ci/run install fetches it.
func alertmanager(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"prometheus-alertmanager", "alertmanager", filepath.Join("..", "..", ".local", "alertmanager", "usr", "bin", "prometheus-alertmanager")} {
		if found, err := exec.LookPath(p); err == nil {
			return found
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no Alertmanager: bash .ci/run install fetches it")
	}
	t.Skip("LEFT OUT: there is no Alertmanager (Debian: prometheus-alertmanager), so no alert was sent to one")
	return ""
}

// startAlertmanager starts Alertmanager, which tells a webhook of alerts, grouped by notification.
// It returns its base URL.
func startAlertmanager(t *testing.T, webhook string) string {
	t.Helper()
	path, dir := alertmanager(t), t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	text := "route: {receiver: all, group_by: [alertname, notification], group_wait: 0s, group_interval: 100ms, repeat_interval: 1h}\n" +
		"receivers: [{name: all, webhook_configs: [{url: \"" + webhook + "\"}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0", "--cluster.listen-address=") // #nosec G204 -- found above
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listens, drained := make(chan string, 1), make(chan string, 1)
	go func() {
		var said strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if at := regexp.MustCompile(`address=(127\.0\.0\.1:[1-9]\d*)`).FindStringSubmatch(lines.Text()); at != nil {
				select {
				case listens <- "http://" + at[1]:
				default:
				}
			}
			said.WriteString(lines.Text() + "\n")
		}
		close(listens)
		drained <- said.String()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if said := <-drained; t.Failed() {
			t.Logf("Alertmanager said\n%s", said)
		}
		_ = cmd.Wait() // it was killed
	})
	url, ok := <-listens
	if !ok {
		t.Fatal("Alertmanager ended before it listened")
	}
	return url
}

// TestAlertmanager: a real Alertmanager takes what its sink is told. The groups of a rule are
// alerts of one notification there, a repeated message is the same alert, and a resolved one ends
// it.
func TestAlertmanager(t *testing.T) {
	type heardAlert struct {
		Status string
		Labels map[string]string
		EndsAt time.Time
	}
	type heard struct{ Alerts []heardAlert }
	told := make(chan heard, 1000)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var h heard
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			t.Errorf("Alertmanager's webhook: %v", err)
		}
		told <- h
	}))
	t.Cleanup(hook.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	url := startAlertmanager(t, hook.URL)
	hear := func(what string, is func(h *heard) bool) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			select {
			case h := <-told:
				if is(&h) {
					return
				}
			case <-limit:
				t.Fatalf("Alertmanager tells nothing of %s", what)
			}
		}
	}
	rule := &schema.NotificationRule{Name: "n", GroupInterval: schema.Duration(5 * time.Minute), RepeatInterval: schema.Duration(4 * time.Hour)}
	now := time.Now().UTC().Truncate(millisecond)
	row := func(job string) *schema.NotificationGroup {
		return &schema.NotificationGroup{
			Tenant: "t", Name: "n/" + job, Rule: "n", Values: []schema.NotificationValue{{Name: byJob, Value: job}, {Name: byError, Value: ""}, {Name: "label.a/b", Value: hostile}},
			Since: now.Add(-time.Minute), At: now, Flush: 1, Told: 3, Total: 3,
			Examples: []schema.NotifiedRun{{Kind: schema.NotifyFailed, At: now, Job: job, Error: hostile}},
		}
	}
	tell := func(row *schema.NotificationGroup, test bool) {
		t.Helper()
		body, err := bodyFor(sinkOf(t, schema.SinkAlertmanager), messageOf(row, rule, test))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v2/alerts", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if said, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
			t.Fatalf("Alertmanager answers %d %s to %s", answer.StatusCode, said, body)
		}
	}
	fire := func(h *heard) (jobs string) {
		for _, a := range h.Alerts {
			if a.Status == "firing" {
				jobs += a.Labels["job"]
			}
		}
		return jobs
	}
	a, b := row("a"), row("b")
	tell(a, false)
	tell(b, false)
	hear("both groups at once", func(h *heard) bool {
		return len(h.Alerts) == 2 && len(fire(h)) == 2 && h.Alerts[0].Labels["notification"] == "n" && h.Alerts[0].Labels["tenant"] == "t" && h.Alerts[0].Labels["label_a_b"] != ""
	})
	a.Flush, a.Told, a.At = 2, 0, now.Add(millisecond) // a message that is repeated
	tell(a, false)
	a.Flush, a.Resolved, a.At = 3, true, time.Now().UTC().Truncate(millisecond)
	tell(a, false)
	hear("the end of one of both", func(h *heard) bool {
		if len(h.Alerts) > 2 {
			t.Errorf("Alertmanager has %d alerts of two groups", len(h.Alerts))
		}
		return fire(h) == "b" && len(h.Alerts) == 2
	})
	tell(row("c"), true)
	hear("a test", func(h *heard) bool {
		return len(h.Alerts) == 1 && h.Alerts[0].Labels["alertname"] == "CarillonNotificationTest"
	})
}
