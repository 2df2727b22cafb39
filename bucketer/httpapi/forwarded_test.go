package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/schema"
)

// servedBy is the refusal of region asked because another one serves home us; "" = nobody knows
// who.
func servedBy(asked, region string) error {
	e := &schema.NotServedError{Home: "us", Asked: asked, Now: testNow}
	if region != "" {
		e.Lease = schema.HomeLease{Epoch: schema.Epoch{Home: "us", Number: 3, Region: region}, Read: testNow}
	}
	return e
}

// someHomes are those of two regions: eu has the shards 0-1, us the others.
func someHomes(t *testing.T) *schema.Homes {
	t.Helper()
	homes, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 1}}}, {Name: "us", Shards: []schema.ShardRange{{First: 2, Last: 7}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &homes
}

// inRegion makes a server one of a region that sends on to that URL, if there is one.
func inRegion(t *testing.T, region, to, url string, change ...func(*Config, *Deps)) func(*Config, *Deps) {
	return func(c *Config, d *Deps) {
		d.Homes = someHomes(t)
		for _, f := range change {
			f(c, d)
		}
		if url == "" {
			return
		}
		f, err := forward.New(forward.Config{Region: region, APIs: map[string][]string{to: {url}}, Registerer: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		d.Forward = f
	}
}

// TestAWriteIsAnsweredByTheRegionThatServesItsHome: it goes there as it came, and the answer says
// where that was. What is served here is answered here.
func TestAWriteIsAnsweredByTheRegionThatServesItsHome(t *testing.T) {
	inUS, inEU := newStub(), newStub()
	us := serve(t, inUS, inRegion(t, "us", "eu", ""))
	eu := serve(t, inEU, inRegion(t, "eu", "us", us.URL))
	create := call{method: "POST", path: "/v1/jobs", body: jobBody, header: http.Header{keyHeader: {"k"}, tenantHeader: {"acme"}}}

	var here, there Job
	header := doJSON(t, eu, create, 201, &here)
	if header.Get(homeHeader) != "us" || header.Get(regionHeader) != "" || len(inUS.order) != 0 { // the stub has shard 3
		t.Errorf("a job that is served here: %v, want home us and that it stays", header)
	}
	inEU.err = servedBy("eu", "us")
	header = doJSON(t, eu, create, 201, &there)
	if len(inUS.order) != 1 || inUS.runs[inUS.order[0]].Entry.Spec.Tenant != "acme" || inUS.runs[inUS.order[0]].Entry.Spec.Key != "k" {
		t.Fatalf("region us has %v, want the job with its tenant and key", inUS.runs)
	}
	id := there.ID.String()
	for name, want := range map[string]string{
		homeHeader: "us", regionHeader: "us", "Location": "/v1/jobs/" + id, "Content-Type": "application/json", "Retry-After": "", "Idempotency-Replayed": "",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	if header.Get("ETag") == "" || len(header.Values("Content-Type")) != 1 || len(header.Values(homeHeader)) != 1 {
		t.Errorf("header %v, want that of one answer", header)
	}
	// sent again, to either region, it is the same job
	for _, region := range []*httptest.Server{eu, us} {
		var again Job
		if header = doJSON(t, region, create, 201, &again); again.ID != there.ID || header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("sent again it is %s, want %s", again.ID, there.ID)
		}
	}
	create.body = strings.Replace(jobBody, `"a":1`, `"a":2`, 1)
	if p := doProblem(t, eu, create, 422); p.Kind() != "key-reused" {
		t.Errorf("another body: %v, want the problem of the other region", p)
	}
	if header = doJSON(t, us, call{method: "GET", path: "/v1/jobs/" + id, header: create.header}, 200, nil); header.Get(homeHeader) != "us" || header.Get(regionHeader) != "" {
		t.Errorf("a job that is read: %v, want its home", header)
	}
}

// TestOneHop: what another region sent on is not sent on again.
func TestOneHop(t *testing.T) {
	inUS, inEU := newStub(), newStub()
	inEU.err, inUS.err = servedBy("eu", "us"), servedBy("us", "eu")
	handlers := make(chan string, 10)
	us := serve(t, inUS, func(c *Config, d *Deps) { d.Homes = someHomes(t) })
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers <- r.Header.Get(forward.Header)
		us.Config.Handler.ServeHTTP(w, r)
	}))
	defer spy.Close()
	eu := serve(t, inEU, inRegion(t, "eu", "us", spy.URL))
	usToo := serve(t, inUS, inRegion(t, "us", "eu", spy.URL))
	post := call{method: "POST", path: "/v1/jobs", body: jobBody}
	if p := doProblem(t, eu, post, 503); p.Kind() != notServedKind || !strings.Contains(p.Detail, "home us is not served by region us: region eu serves it") {
		t.Errorf("two regions that each take the other for it: %v, want the refusal of the second", p)
	}
	post.header = http.Header{forward.Header: {"eu"}}
	if p := doProblem(t, usToo, post, 503); p.Kind() != notServedKind {
		t.Errorf("what was sent on: %v, want not-served", p)
	}
	if n := len(handlers); n != 1 || <-handlers != "eu" {
		t.Errorf("%d requests were sent on, want one, marked by eu", n)
	}
}

// TestWritesThatAreNotSentOn: the refusal names home and region; nothing is said to be unwritten
// that may be.
func TestWritesThatAreNotSentOn(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	answering := func(f http.HandlerFunc) string {
		s := httptest.NewServer(f)
		t.Cleanup(s.Close)
		return s.URL
	}
	cut := answering(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	proxy := answering(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no backend", http.StatusBadGateway) })
	for name, row := range map[string]struct {
		url          string
		err          error
		kind, detail string
	}{
		"no address":                     {"", servedBy("eu", "us"), notServedKind, "region us serves it (epoch 3)"},
		"unreachable":                    {gone.URL, servedBy("eu", "us"), notServedKind, "home us is not served by region eu: region us serves it (epoch 3); ask that one, or fail the home over. It was to be sent on to that region, which cannot be reached"},
		"nobody knows who serves it":     {cut, servedBy("eu", ""), notServedKind, "has not been read yet"},
		"this region takes it over":      {cut, servedBy("eu", "eu"), notServedKind, "it takes the home over"},
		"sent, and no answer":            {cut, servedBy("eu", "us"), unknownKind, "sent on to region us, which serves home us"},
		"a proxy answers":                {proxy, servedBy("eu", "us"), unknownKind, "sent on to region us"},
		"lost while it was written":      {cut, (&bothErrors{}), unknownKind, "lost its lease on home us"},
		"another region that has no URL": {cut, servedBy("eu", "ap"), notServedKind, "region ap serves it"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStub()
			b.err = row.err
			eu := serve(t, b, inRegion(t, "eu", "us", row.url))
			p, header := problemAnd(t, eu, call{method: "POST", path: "/v1/jobs", body: jobBody}, 503)
			if p.Kind() != row.kind || !strings.Contains(p.Detail, row.detail) || header.Get(homeHeader) != "us" {
				t.Errorf("%v of home %q, want %s that says %q of home us", p, header.Get(homeHeader), row.kind, row.detail)
			}
		})
	}
}

// bothErrors is the error of a write that was sent when the lease on its home ended.
type bothErrors struct{}

func (*bothErrors) Error() string   { return "both" }
func (*bothErrors) Unwrap() []error { return []error{schema.ErrUnknown, servedBy("eu", "us")} }

// TestASessionGoesOnAsItsKey: the other region need not be able to open the cookie.
func TestASessionGoesOnAsItsKey(t *testing.T) {
	keys := newAdminStub()
	inUS, inEU := newStub(), newStub()
	inEU.err = servedBy("eu", "us")
	us := serve(t, inUS, inRegion(t, "us", "eu", "", keys.desk, func(c *Config, _ *Deps) { c.CursorKey = []byte("another key than that") }))
	eu := serve(t, inEU, inRegion(t, "eu", "us", us.URL, keys.desk))
	keys.key("a/operator")
	doJSON(t, eu, call{method: "POST", path: "/v1/jobs", body: jobBody, header: withCookie(logIn(t, eu, secret("a/operator")).Value)}, 201, nil)
	if len(inUS.order) != 1 {
		t.Error("region us has no job, want one")
	}
}

// TestWithoutRegionsNoAnswerNamesAHome: nor is anything held back.
func TestWithoutRegionsNoAnswerNamesAHome(t *testing.T) {
	hs := serve(t, newStub())
	header := doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, nil)
	if header.Get(homeHeader) != "" || header.Get(regionHeader) != "" {
		t.Errorf("header %v, want none about regions", header)
	}
}
