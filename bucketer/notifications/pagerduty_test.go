package notifications_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// pagerDuty stands in for PagerDuty's Events API v2: it takes what its documentation says, and
// nothing else.
type pagerDuty struct {
	open map[string]string // the severity of incidents that are open, by dedup_key
	ever int               // incidents that were opened
}

func (p *pagerDuty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if faults := p.take(r); len(faults) > 0 {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "invalid event", "message": "Event object is invalid", "errors": faults})
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "success", "message": "Event processed"})
}

func (p *pagerDuty) take(r *http.Request) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var e struct {
		RoutingKey string `json:"routing_key"`
		Action     string `json:"event_action"`
		Dedup      string `json:"dedup_key"`
		Client     string `json:"client"`
		ClientURL  string `json:"client_url"`
		Payload    *struct {
			Summary   string         `json:"summary"`
			Source    string         `json:"source"`
			Severity  string         `json:"severity"`
			Timestamp *time.Time     `json:"timestamp"`
			Component string         `json:"component"`
			Group     string         `json:"group"`
			Class     string         `json:"class"`
			Details   map[string]any `json:"custom_details"`
		} `json:"payload"`
		Links  []struct{ Href, Text string } `json:"links"`
		Images []struct{ Src, Href, Alt string }
	}
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 512<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		fault("%v", err)
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v2/enqueue" || r.Header.Get("Content-Type") != "application/json" {
		fault("%s %s of %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	if len(e.RoutingKey) != 32 {
		fault("Length of 'routing_key' is incorrect (should be 32 characters)")
	}
	if len(e.Dedup) > 255 {
		fault("'dedup_key' is too long")
	}
	switch e.Action {
	case "trigger":
		if e.Payload == nil {
			fault("'payload' is missing or blank")
			return faults
		}
		s := e.Payload
		if s.Summary == "" || utf8.RuneCountInString(s.Summary) > 1024 || strings.ContainsAny(s.Summary, "\r\n") {
			fault("'payload.summary' is missing, too long or not one line")
		}
		if s.Source == "" {
			fault("'payload.source' is missing or blank")
		}
		switch s.Severity {
		case "critical", "error", "warning", "info":
		default:
			fault("'payload.severity' is invalid (must be one of the following: critical, warning, error or info)")
		}
		for _, l := range e.Links {
			if u, err := url.Parse(l.Href); err != nil || !u.IsAbs() {
				fault("'links' has no 'href'")
			}
		}
	case "acknowledge", "resolve":
		if e.Dedup == "" {
			fault("'dedup_key' is missing or blank")
		}
	default:
		fault("'event_action' is invalid")
	}
	if len(faults) > 0 {
		return faults
	}
	if _, open := p.open[e.Dedup]; e.Action == "trigger" {
		if !open {
			p.ever++
		}
		p.open[e.Dedup] = e.Payload.Severity
	} else {
		delete(p.open, e.Dedup)
	}
	return nil
}

// call calls the stand-in as the run of a message does.
func (p *pagerDuty) call(t *testing.T, e schema.Entry) {
	t.Helper()
	to := e.Spec.Work.HTTP
	var body map[string]any
	if err := json.Unmarshal(e.Payload, &body); err != nil {
		t.Fatal(err)
	}
	if to.Auth == nil || to.Auth.Field == nil || to.Auth.Field.Secret != "pd" || body[to.Auth.Field.Name] != nil {
		t.Fatalf("the run of a message = %+v, want that a secret is added", to)
	}
	body[to.Auth.Field.Name] = strings.Repeat("k", 32)
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, to.URL, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		t.Errorf("PagerDuty answers %d %s to %s", w.Code, w.Body, text)
	}
}

// TestPagerDuty: a group is an incident, which messages about it join, also after its rule was put
// again, and which ends when all is well.
func TestPagerDuty(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		rule := func(r *schema.NotificationRule) {
			r.GroupBy = []string{"job", "kind"}
			r.Sinks = []schema.NotificationSink{{PagerDuty: &schema.PagerDutySink{
				RoutingKeySecret: "pd", Severity: "critical", Links: []schema.PagerDutyLink{{Href: "https://x.test/runbook", Text: "Runbook"}},
			}}}
		}
		w.put(rule)
		defer w.notify(always())()
		p, called := &pagerDuty{open: make(map[string]string)}, 0
		expect := func(when string, calls, open, ever int) {
			t.Helper()
			all := w.runsOfMessages()
			for _, e := range all[called:] {
				p.call(t, e)
			}
			if called = len(all); called != calls || len(p.open) != open || p.ever != ever {
				t.Errorf("%s: %d calls, %d incidents of which are open %v; want %d, %d and %d", when, called, p.ever, p.open, calls, ever, open)
			}
		}
		job := schema.JobID(schema.MakeEntryID(w.began, 1, 7))
		name := "a\r\nrouting_key: x" + strings.Repeat("ü", 2000)
		w.fail(name, job, 1)
		time.Sleep(time.Minute)
		expect("a failure", 1, 1, 1)
		w.fail(name, job, 2)
		time.Sleep(5 * time.Minute)
		expect("one more", 2, 1, 1)
		w.put(func(r *schema.NotificationRule) {
			rule(r)
			r.On = append(r.On, schema.NotifyMissed) // it begins anew
		})
		time.Sleep(time.Minute)
		w.fail(name, job, 3)
		time.Sleep(time.Minute)
		expect("after its rule was put again", 3, 1, 1)
		w.history(job, schema.StateSucceeded)
		time.Sleep(6 * time.Minute)
		expect("all is well", 4, 0, 1)
		w.fail(name, job, 4)
		time.Sleep(time.Minute)
		expect("it fails again", 5, 1, 2)
		if _, err := w.e.TestNotification(t.Context(), tenant, "n"); err != nil {
			t.Fatal(err)
		}
		expect("a test", 6, 2, 3)
		severities := make(map[string]int)
		for _, s := range p.open {
			severities[s]++
		}
		if severities["critical"] != 1 || severities["info"] != 1 {
			t.Errorf("severities = %v, want the rule's, and info of a test", severities)
		}
	})
}
