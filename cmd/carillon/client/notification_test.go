package client

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// On a whole node: a rule is set, tested, listed and deleted; a failure is told to its sink, under the id
// of the run that tells it; and a sink at the address of a cloud's metadata is not called.
func TestNotificationsOfANode(t *testing.T) {
	api := clitest.StartNodeIn(t, t.TempDir(), func(c *config.Config) {
		c.Secrets.Keys = []string{"k:" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
	})
	const routingKey = "0123456789abcdef0123456789abcdef"
	var keyed atomic.Bool
	type told struct {
		Type string
		Data struct {
			Notification string
			Count        int
			Runs         []schema.NotifiedRun
		}
		id string
	}
	var mu sync.Mutex
	var heard []told
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			http.Error(w, "no", http.StatusGone)
			return
		}
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v2/enqueue" {
			keyed.Store(strings.Contains(string(text), `"routing_key":"`+routingKey+`"`))
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(text)
			return
		}
		m := told{id: r.Header.Get("Webhook-Id")}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Errorf("a message = %s: %v", text, err)
		}
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, m)
	}))
	defer sink.Close()
	hear := func(what string, is func(m *told) bool) (found told) {
		t.Helper()
		clitest.Await(t, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i := range heard {
				if is(&heard[i]) {
					found = heard[i]
					return true
				}
			}
			return false
		})
		return found
	}
	set := func(name, rule string) {
		t.Helper()
		if r := clitest.Run(t.Context(), rule, "notifications", "set", "--api", api, name); r.Code != 0 {
			t.Fatalf("notifications set exits %d: %s", r.Code, r.Stderr)
		}
	}
	set("n", `{"on":["failed"],"sinks":[{"webhook":{"url":"`+sink.URL+`/hook"}}],"group_wait":"0s"}`)
	tested := strings.TrimSpace(clitest.Succeed(t, "notifications", "test", "--api", api, "n").Stdout)
	if m := hear("the test", func(m *told) bool { return m.Type == "notification.test" }); m.id != tested {
		t.Errorf("the test came under the id %s, want that of its run, %s", m.id, tested)
	}
	failed := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL+"/fail", "-o", "json").Stdout).ID.String()
	m := hear("the failure", func(m *told) bool { return m.Type == "notification.firing" })
	if m.Data.Notification != "n" || m.Data.Count != 1 || len(m.Data.Runs) != 1 || m.Data.Runs[0].Run.String() != failed {
		t.Errorf("the message = %+v, want the run %s", m, failed)
	}
	if run := awaitRun(t, api, m.id, schema.StateSucceeded); run.Trigger != schema.TriggerNotification || run.Labels["notification"] != "n" || run.Priority != schema.Low {
		t.Errorf("the run of the message = %+v", run)
	}

	if r := clitest.Run(t.Context(), routingKey, "secret", "put", "--api", api, "pd"); r.Code != 0 {
		t.Fatalf("secret put exits %d: %s", r.Code, r.Stderr)
	}
	set("pages", `{"on":["failed"],"sinks":[{"pagerduty":{"routing_key_secret":"pd","url":"`+sink.URL+`/v2/enqueue"}}]}`)
	paged := strings.TrimSpace(clitest.Succeed(t, "notifications", "test", "--api", api, "pages").Stdout)
	awaitRun(t, api, paged, schema.StateSucceeded)
	if shown := clitest.Succeed(t, "run", "get", "--api", api, "-o", "json", paged).Stdout; !keyed.Load() || strings.Contains(shown, routingKey) {
		t.Errorf("PagerDuty got its key: %t, and the run shows %s; want a key that is in no run", keyed.Load(), shown)
	}

	mails := make(chan string, 1)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return mailSession{mails}, nil }))
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		t.Logf("the mail server ended: %v", <-served)
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	set("mails", `{"on":["failed"],"sinks":[{"email":{"to":["ops@x.test"],"from":"c@x.test","server":{"host":"127.0.0.1","port":`+port+`,"tls":"none"}}}]}`)
	mailed := strings.TrimSpace(clitest.Succeed(t, "notifications", "test", "--api", api, "mails").Stdout)
	awaitRun(t, api, mailed, schema.StateSucceeded)
	if text := <-mails; !strings.Contains(text, "Subject: Test of mails: test\r\n") || !strings.Contains(text, "Message-ID: <"+mailed+"@x.test>\r\n") {
		t.Errorf("the mail = %s", text)
	}
	if shown := clitest.Succeed(t, "run", "get", "--api", api, "-o", "json", mailed).Stdout; !strings.Contains(shown, "e-mail to ops@x.test") {
		t.Errorf("run get of a mail shows\n%s", shown)
	}

	set("meta", `{"on":["failed"],"sinks":[{"slack":{"url":"http://169.254.169.254/latest/meta-data/"}}]}`)
	refused := strings.TrimSpace(clitest.Succeed(t, "notifications", "test", "--api", api, "meta").Stdout)
	clitest.Await(t, "the refusal", func() bool {
		run := getRun(t, api, refused)
		return len(run.Attempts) > 0 && strings.Contains(run.Attempts[0].Error, "address is not allowed")
	})

	if shown := clitest.Succeed(t, "notifications", "list", "--api", api).Stdout; !strings.Contains(shown, "meta") || !strings.Contains(shown, "webhook") {
		t.Errorf("notifications list shows\n%s", shown)
	}
	if got := clitest.Decode[httpapi.Notification](t, clitest.Succeed(t, "notifications", "get", "--api", api, "n").Stdout); got.Sinks[0].Webhook.URL != sink.URL+"/hook" {
		t.Errorf("notifications get = %+v", got)
	}
	// A silence changes nothing else of a rule, and its end leaves the rule as it was.
	const full = `{"on":["failed","dead"],"description":"d","match":{"job":"a*","in_a_row":3},"group_by":[],"group_wait":"1s","group_interval":"2m","repeat_interval":"1h","send_resolved":false,` +
		`"sinks":[{"pagerduty":{"routing_key_secret":"pd"}}],"mute_time_intervals":[{"years":["2001"]}]}`
	set("full", full)
	rule := func() httpapi.Notification {
		t.Helper()
		n := clitest.Decode[httpapi.Notification](t, clitest.Succeed(t, "notifications", "get", "--api", api, "full").Stdout)
		n.UpdatedAt, n.State = httpapi.Time{}, nil
		return n
	}
	before := rule()
	for range 2 { // again is in place of the first
		clitest.Succeed(t, "notifications", "silence", "--api", api, "full", "--until", "30m")
	}
	if shown := clitest.Succeed(t, "notifications", "list", "--api", api).Stdout; !strings.Contains(shown, "quiet, muted") {
		t.Errorf("notifications list of a rule that is silenced shows\n%s", shown)
	}
	silenced := rule()
	if n := len(silenced.Mute); n < 2 || n > 3 { // midnight may come
		t.Errorf("a rule that is silenced for half an hour twice has the intervals %+v, want one or two more", silenced.Mute)
	}
	silenced.Mute = silenced.Mute[:1]
	if diff := cmp.Diff(before, silenced); diff != "" {
		t.Errorf("a rule that is silenced (-want +got):\n%s", diff)
	}
	far := clitest.Succeed(t, "notifications", "silence", "--api", api, "full", "--until", "tomorrow 07:00", "--timezone", "Pacific/Honolulu")
	if !strings.Contains(far.Stderr, "T17:00:00.000Z") {
		t.Errorf("a silence until 07:00 of Honolulu says %q, want until 17:00 UTC", far.Stderr)
	}
	clitest.Succeed(t, "notifications", "silence", "--api", api, "full", "--end")
	if diff := cmp.Diff(before, rule()); diff != "" {
		t.Errorf("a rule after its silence (-want +got):\n%s", diff)
	}
	for _, args := range []string{"full", "full --until yesterday", "full --until soon", "full --until 15d", "full --until 1h --end", "full --until 1h --timezone Mars", "full --end --timezone UTC"} {
		if r := clitest.Run(t.Context(), "", append([]string{"notifications", "silence", "--api", api}, strings.Fields(args)...)...); r.Code != 2 {
			t.Errorf("notifications silence %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
	clitest.Succeed(t, "notifications", "delete", "--api", api, "n")
	for _, bad := range [][]string{{"get", "n"}, {"delete", "n"}, {"test", "n"}, {"silence", "n", "--until", "1h"}} {
		if r := clitest.Run(t.Context(), "", append([]string{"notifications", "--api", api}, bad...)...); r.Code == 0 || !strings.Contains(r.Stderr, "notification n: ") {
			t.Errorf("notifications %s of what is deleted exits %d: %s; want that it is named", bad[0], r.Code, r.Stderr)
		}
	}
	for _, rule := range []string{"{", `{"on":["failed"]}`} {
		if r := clitest.Run(t.Context(), rule, "notifications", "set", "--api", api, "x"); r.Code == 0 {
			t.Errorf("notifications set of %s exits 0", rule)
		}
	}
}

// A silence is of the minutes from now up to its end, day by day.
func TestSilence(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	of := func(begin, end, day, month, year string) schema.MuteTimeInterval {
		return schema.MuteTimeInterval{Times: []schema.MuteTimes{{StartTime: begin, EndTime: end}}, DaysOfMonth: []string{day}, Months: []string{month}, Years: []string{year}}
	}
	for name, row := range map[string]struct {
		from, to string
		want     []schema.MuteTimeInterval
	}{
		"an hour":        {"2026-11-28T22:00:59.9Z", "2026-11-28T23:00:00Z", []schema.MuteTimeInterval{of("22:00", "23:00", "28", "11", "2026")}},
		"a part of one":  {"2026-11-28T22:00:10Z", "2026-11-28T22:00:11Z", []schema.MuteTimeInterval{of("22:00", "22:01", "28", "11", "2026")}},
		"a night":        {"2026-12-31T22:30:00+01:00", "2027-01-01T08:00:00.001+01:00", []schema.MuteTimeInterval{of("21:30", "24:00", "31", "12", "2026"), of("00:00", "07:01", "1", "1", "2027")}},
		"up to midnight": {"2026-11-28T23:59:30Z", "2026-11-29T00:00:00Z", []schema.MuteTimeInterval{of("23:59", "24:00", "28", "11", "2026")}},
		"days":           {"2026-11-28T12:00:00Z", "2026-11-30T06:00:00Z", []schema.MuteTimeInterval{of("12:00", "24:00", "28", "11", "2026"), of("00:00", "24:00", "29", "11", "2026"), of("00:00", "06:00", "30", "11", "2026")}},
		"none":           {"2026-11-28T12:00:30Z", "2026-11-28T12:00:30Z", nil},
	} {
		got := silence(at(row.from), at(row.to))
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("silence of %s (-want +got):\n%s", name, diff)
		}
		for i := range got {
			if field, fault := notifications.MuteFault(&got[i]); fault != "" {
				t.Errorf("silence of %s: %s %s", name, field, fault)
			}
		}
		again := []schema.MuteTimeInterval{{Weekdays: []string{"sunday"}}, {DaysOfMonth: []string{"-1"}, Months: []string{"1"}, Years: []string{"2026"}, Times: []schema.MuteTimes{{StartTime: "00:00", EndTime: "01:00"}}}}
		if diff := cmp.Diff(again, withoutSilences(append(slices.Clone(again), got...))); diff != "" {
			t.Errorf("without the silence of %s (-want +got):\n%s", name, diff)
		}
	}
}

// mailSession takes every mail.
type mailSession struct{ mails chan<- string }

func (mailSession) Reset()                               {}
func (mailSession) Logout() error                        { return nil }
func (mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mails <- string(text)
	return err
}
