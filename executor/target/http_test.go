package target

import (
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// newHTTP returns a target that may call loopback, closed with the test.
func newHTTP(t testing.TB, c HTTPConfig) *HTTP {
	t.Helper()
	if c.AllowPrefixes == nil {
		c.AllowPrefixes = loopback
	}
	h, err := NewHTTP(c)
	if err != nil {
		t.Fatalf("NewHTTP(%+v): %v", c, err)
	}
	t.Cleanup(h.Close)
	return h
}

// serve starts a server on loopback for the test.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// callTo returns an attempt that posts {"a":1} to url.
func callTo(url string) Call {
	due := time.Date(2026, 11, 21, 10, 0, 0, 250_000_000, time.FixedZone("", 3600))
	return Call{
		Tenant: "default", Run: schema.MakeEntryID(due, 7, 0x1234), Number: 3, Fence: 1_790_000_000_000_042, Due: due,
		Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}.InForce(), Payload: []byte(`{"a":1}`),
	}
}

func TestHTTPSendsWhatATaskReceives(t *testing.T) {
	type request struct {
		method, path, host, body string
		length                   int64
		header                   http.Header
	}
	got := make(chan request, 1)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Method, r.URL.RequestURI(), r.Host, string(body), r.ContentLength, r.Header}
	})
	recurring := schema.MakeJobID(time.UnixMilli(1_790_000_000_000), 7, 42)
	now := time.Unix(1_790_000_123, 999)
	for name, c := range map[string]struct {
		change func(*Call)
		want   request
	}{
		"one-off": {func(*Call) {}, request{method: "POST", path: "/hook?x=1", body: `{"a":1}`, length: 7, header: http.Header{"Content-Type": {"application/json"}}}},
		"of a job": {func(c *Call) { c.Job, c.Nominal = recurring, c.Due.Add(-time.Hour) }, request{method: "POST", path: "/hook?x=1", body: `{"a":1}`, length: 7, header: http.Header{
			"Content-Type": {"application/json"}, "Carillon-Job-Id": {recurring.String()}, "Carillon-Nominal-At": {"2026-11-21T08:00:00.250Z"},
		}}},
		"no payload":     {func(c *Call) { c.Payload = nil }, request{method: "POST", path: "/hook?x=1"}},
		"payload unsent": {func(c *Call) { c.Work.HTTP.Body = "none" }, request{method: "POST", path: "/hook?x=1"}},
		"GET":            {func(c *Call) { c.Work.HTTP.Method = "GET"; c.Payload = nil }, request{method: "GET", path: "/hook?x=1"}},
		"headers of the task": {func(c *Call) {
			c.Work.HTTP.Headers = map[string]string{
				"authorization": "Bearer x", "X-A": "b", "content-type": "application/cloudevents+json", "user-agent": "me",
				// Ours, or the connection's:
				"carillon-run-id": "forged", "Carillon-Other": "x", "idempotency-key": "forged", "TRACEPARENT": "forged", "tracestate": "x",
				"webhook-id": "forged", "webhook-signature": "forged", "Host": "elsewhere.test", "Connection": "close, X-A", "Transfer-Encoding": "chunked",
				"Content-Length": "3", "Te": "trailers", "Trailer": "X", "Upgrade": "h2c", "Keep-Alive": "1", "Proxy-Authorization": "x", "Expect": "100-continue",
			}
		}, request{method: "POST", path: "/hook?x=1", body: `{"a":1}`, length: 7, header: http.Header{
			"Content-Type": {"application/cloudevents+json"}, "Authorization": {"Bearer x"}, "X-A": {"b"}, "User-Agent": {"me"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHTTP(t, HTTPConfig{Now: func() time.Time { return now }})
			call := callTo(s.URL + "/hook?x=1#fragment")
			c.change(&call)
			if res := h.Run(t.Context(), call); res.Outcome != schema.Succeeded || res.Status != 200 {
				t.Fatalf("Run: got %+v, want success", res)
			}
			r := <-got
			want := c.want
			run := call.Run.String()
			all := http.Header{
				"Carillon-Run-Id": {run}, "Carillon-Job-Id": {run}, "Carillon-Attempt": {"3"}, "Carillon-Fence": {"1790000000000042"},
				"Carillon-Due-At": {"2026-11-21T09:00:00.250Z"}, "Idempotency-Key": {run}, "Webhook-Id": {run}, "Webhook-Timestamp": {"1790000123"},
				"User-Agent": {"carillon"},
			}
			if want.length > 0 {
				all["Content-Length"] = []string{strconv.FormatInt(want.length, 10)}
			} else if want.method == "POST" {
				all["Content-Length"] = []string{"0"}
			}
			maps.Copy(all, want.header)
			want.header, want.host = all, s.Listener.Addr().String()

			trace := r.header.Get("Traceparent")
			form := regexp.MustCompile("^00-" + hex.EncodeToString(call.Run[:]) + "-[0-9a-f]{16}-00$")
			if !form.MatchString(trace) {
				t.Errorf("traceparent: got %q, want the form %s", trace, form)
			}
			r.header.Del("Traceparent")
			if diff := cmp.Diff(want, r, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTraceparent: attempts of a run are different spans of one trace, the same each time that it is
// asked for, and the flag says whether they are sent.
func TestTraceparent(t *testing.T) {
	c := callTo("")
	var seen []string
	for n := range 10 {
		for fence := range 10 {
			c.Number, c.Fence = n+1, schema.Fence(1_790_000_000_000_042+fence)
			said := factsOf(&c).trace
			if again := factsOf(&c).trace; again != said {
				t.Errorf("traceparent of attempt %d, fence %d: %s, then %s", c.Number, c.Fence, said, again)
			}
			seen = append(seen, said)
		}
	}
	slices.Sort(seen)
	if n := len(slices.Compact(seen)); n != 100 {
		t.Errorf("traceparent of 100 attempts: got %d different ones, want 100", n)
	}
	if said := factsOf(&c).trace; !strings.HasSuffix(said, "-00") {
		t.Errorf("traceparent of an attempt that is not sampled: %s, want the flag 00", said)
	}
	c.Sampled = true
	if said := factsOf(&c).trace; !strings.HasSuffix(said, "-01") {
		t.Errorf("traceparent of an attempt that is sampled: %s, want the flag 01", said)
	}
}
