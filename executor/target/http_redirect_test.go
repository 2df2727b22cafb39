package target

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestHTTPFollowsRedirects(t *testing.T) {
	type seen struct{ method, body, contentType, auth, run, key, agent string }
	var last seen
	land := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = seen{
			r.Method, string(body), r.Header.Get("Content-Type"), r.Header.Get("Authorization"), r.Header.Get("Carillon-Run-Id"),
			r.Header.Get("Idempotency-Key"), r.Header.Get("User-Agent"),
		}
		if also := r.Header.Get("X-Idempotency-Key"); also != last.auth {
			t.Errorf("X-Idempotency-Key of the task: got %q, want what became of its other secret, %q", also, last.auth)
		}
		_, _ = io.WriteString(w, "landed")
	}
	other := serve(t, nil)
	other.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if back := r.URL.Query().Get("back"); back != "" {
			http.Redirect(w, r, back, http.StatusTemporaryRedirect)
			return
		}
		land(w, r)
	})
	var home *httptest.Server
	home = serve(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			land(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		to := map[string]string{
			"": "/land", "relative": "land", "other": other.URL, "back": other.URL + "?back=" + home.URL + "/land", "user": strings.Replace(home.URL, "//", "//user:pass@", 1),
		}[r.URL.RawQuery]
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
	const payload, kind, secret = `{"a":1}`, "application/x", "s3cret"
	run := callTo("").Run.String()
	for name, c := range map[string]struct {
		path, method string
		want         seen
	}{
		"301":                   {"/301", "POST", seen{"GET", "", "", secret, run, run, "me"}},
		"302":                   {"/302", "PUT", seen{"GET", "", "", secret, run, run, "me"}},
		"303":                   {"/303", "DELETE", seen{"GET", "", "", secret, run, run, "me"}},
		"303 of HEAD":           {"/303", "HEAD", seen{"HEAD", "", "", secret, run, run, "me"}},
		"307":                   {"/307", "POST", seen{"POST", payload, kind, secret, run, run, "me"}},
		"308":                   {"/308", "PATCH", seen{"PATCH", payload, kind, secret, run, run, "me"}},
		"relative":              {"/308?relative", "POST", seen{"POST", payload, kind, secret, run, run, "me"}},
		"user in the location":  {"/302?user", "POST", seen{"GET", "", "", secret, run, run, "me"}},
		"another origin":        {"/307?other", "POST", seen{"POST", payload, "application/json", "", run, run, "carillon"}},
		"another origin by 302": {"/302?other", "POST", seen{"GET", "", "", "", run, run, "carillon"}},
		"away and back":         {"/307?back", "POST", seen{"POST", payload, "application/json", "", run, run, "carillon"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHTTP(t, HTTPConfig{})
			call := callTo(home.URL + c.path)
			call.Work.HTTP.Method = c.method
			call.Work.HTTP.Headers = map[string]string{"Authorization": secret, "X-Idempotency-Key": secret, "Content-Type": kind, "User-Agent": "me"}
			last = seen{}
			res := h.Run(t.Context(), call)
			if res.Outcome != schema.Succeeded || last != c.want {
				t.Errorf("Run: got %+v and the request %+v, want a success and %+v", res, last, c.want)
			}
		})
	}
}

func TestHTTPRefusesRedirects(t *testing.T) {
	var to string
	status := http.StatusTemporaryRedirect
	hops := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hops++
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
	plain := serve(t, handler)
	tls := httptest.NewTLSServer(handler)
	t.Cleanup(tls.Close)
	n := &names{answers: map[string][][]string{"inner.test": {{"10.11.12.13"}}}}
	h := newHTTP(t, HTTPConfig{
		resolver: n.resolver(), tls: tls.Client().Transport.(*http.Transport).TLSClientConfig,
	})
	for name, c := range map[string]struct {
		from, to, want string
		final          bool
		hops           int
	}{
		"denied address":        {plain.URL, "http://169.254.169.254/latest/meta-data/", "169.254.169.254: address is not allowed", true, 1},
		"name of a denied one":  {plain.URL, "http://inner.test/?s3cret", "inner.test: address is not allowed", true, 1},
		"for ever":              {plain.URL, "/", "more than 5 redirects", false, 6},
		"https to http":         {tls.URL, plain.URL + "/s3cret", "redirected from https to http at 127.0.0.1", false, 1},
		"another scheme":        {plain.URL, "file:///etc/passwd", "redirected to something that is not an http or https URL", false, 1},
		"scheme of NATS":        {plain.URL, "nats://127.0.0.1/", "redirected to something that is not an http or https URL", false, 1},
		"not a URL":             {plain.URL, "http://[::1", "redirected to something that is not an http or https URL", false, 1},
		"no host":               {plain.URL, "http:///x", "redirected to something that is not an http or https URL", false, 1},
		"a name of 5,000 bytes": {plain.URL, "http://" + strings.Repeat("x", 5000), strings.Repeat("x", 253) + ": host not found", false, 1},
	} {
		to, hops = c.to, 0
		res := h.Run(t.Context(), callTo(c.from))
		if res.Outcome != schema.Failed || res.Final != c.final || res.Error != c.want || hops != c.hops {
			t.Errorf("%s: Run: got %+v after %d hops, want a failure, final %v, of %q after %d", name, res, hops, c.final, c.want, c.hops)
		}
	}
}
