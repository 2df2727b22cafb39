package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// A refused import is answered although its body does not come, and the connection is not kept for
// it.
func TestRefusedImportWaitsForNoBody(t *testing.T) {
	for name, row := range map[string]struct {
		header string
		want   int
	}{
		"a wrong type":   {"Content-Type: text/plain\r\n", 415},
		"a wrong tenant": {"Carillon-Tenant: *\r\n", 422},
		"too many":       {"Content-Type: " + ndjson + "\r\n", 429},
	} {
		t.Run(name, func(t *testing.T) {
			// A body that nobody reads is waited for until the time-out: with a long one the answer
			// must come first.
			for _, wait := range []time.Duration{time.Hour, 20 * time.Millisecond} {
				hs := serve(t, newStub(), func(c *Config, _ *Deps) { c.BodyTimeout, c.MaxImports = wait, 1 })
				if row.want == 429 {
					first := dial(t, hs)
					_, _ = fmt.Fprintf(first, "POST /v1/imports HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n%s\n", line)
					if _, err := bufio.NewReader(first).Peek(1); err != nil {
						t.Fatal(err)
					}
				}
				c := dial(t, hs)
				_, _ = fmt.Fprintf(c, "POST /v1/imports HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n%s\r\n", row.header)
				_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
				r := bufio.NewReader(c)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatalf("a refused import is not answered: %v", err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != row.want {
					t.Errorf("a refused import is answered %d, want %d", resp.StatusCode, row.want)
				}
				if wait < time.Second {
					if _, err := r.ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
						t.Errorf("the connection of a refused import: %v, want its end", err)
					}
				}
				_ = c.Close()
			}
		})
	}
}

// Bodies that come at once share a bounded memory. Small ones are read nevertheless.
func TestBodiesShareBoundedMemory(t *testing.T) {
	const memory = 128 << 10
	hs := serve(t, newStub(), func(c *Config, _ *Deps) { c.MaxBodies = memory })
	// An answer reaches the client before the memory of its request is given back.
	until := func(what string, holds func(left int64) bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !holds(hs.Config.Handler.(*Server).bodies.Load()); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the memory for bodies: not %s within 20 s", what)
			}
		}
	}
	free := func(left int64) bool { return left == memory }
	large := call{method: "POST", path: "/v1/jobs", body: `{"http":{"url":"http://x.test/"},"payload":"` + strings.Repeat("a", 60<<10) + `"}`}
	doJSON(t, hs, large, 201, nil)
	until("given back by a request that was answered", free)

	held := dial(t, hs) // a body that stays unfinished holds what it took
	_, _ = fmt.Fprintf(held, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n%s", large.body)
	until("taken by a body that came in part", func(left int64) bool { return left <= memory-64<<10 })
	status, header, text := do(t, hs, large)
	if status != 429 || !strings.Contains(string(text), "overloaded") || header.Get("Retry-After") == "" {
		t.Errorf("a body beyond the memory for bodies is answered %d, Retry-After %q: %s; want 429 and a time", status, header.Get("Retry-After"), text)
	}
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, nil)

	_ = held.Close()
	until("given back by a body that was given up", free)
	doJSON(t, hs, large, 201, nil)
}

func TestRequestsOfTwoMeaningsAreRefused(t *testing.T) {
	hs := serve(t, newStub())
	for name, row := range map[string]struct {
		query, location string
	}{
		"a parameter twice":  {"from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&limit=1&limit=2", "query.limit"},
		"a broken escape":    {"from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&x=%zz", "query"},
		"a semicolon":        {"from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z;limit=1", "query"},
		"before the year 0":  {"from=0000-01-01T00:00:00%2B23:59&to=0000-01-01T00:30:00%2B23:59", "query.from"},
		"after 9999, in UTC": {"from=9999-12-31T23:50:00Z&to=9999-12-31T23:59:00-01:00&cursor=x", "query.to"},
	} {
		t.Run(name, func(t *testing.T) {
			p := doProblem(t, hs, call{method: "GET", path: "/v1/runs?" + row.query}, 422)
			if len(p.Errors) == 0 || p.Errors[len(p.Errors)-1].Location != row.location && p.Errors[0].Location != row.location {
				t.Errorf("GET /v1/runs?%s: faults %v, want one at %s", row.query, p.Errors, row.location)
			}
		})
	}
}

// A page whose name was made to lead here may neither read nor write; what watches the node may.
func TestNamesOfOtherMachinesAreRefused(t *testing.T) {
	hs := serve(t, newStub(), func(c *Config, _ *Deps) { c.Host = LocalHost("jobs.example") })
	any := serve(t, newStub())
	paths := map[string]string{"/v1/cluster": "GET", "/v1/jobs": "POST", "/v1/imports": "POST"}
	for host, refused := range map[string]bool{
		"localhost": false, "LOCALHOST:8080": false, "127.0.0.1:8080": false, "[::1]:8080": false, "[::1]": false, "10.1.2.3": false,
		"jobs.example": false, "Jobs.Example:443": false,
		"evil.example": true, "evil.example:8080": true, "localhost.evil.example": true, "127.0.0.1.evil.example:8080": true, "x.jobs.example": true,
	} {
		t.Run(host, func(t *testing.T) {
			ask := func(hs *httptest.Server, method, path string) (int, string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, hs.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = host
				resp, err := hs.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, string(text)
			}
			for path, method := range paths {
				status, text := ask(hs, method, path)
				if named := strings.Contains(text, "The Host header names another machine"); named != refused || refused != (status == 403) {
					t.Errorf("%s %s of host %s is answered %d: %s; refused: want %t", method, path, host, status, text, refused)
				}
				if status, text := ask(any, method, path); status == 403 {
					t.Errorf("%s %s of host %s, where any may be named, is answered %d: %s", method, path, host, status, text)
				}
			}
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				if status, text := ask(hs, "GET", path); status != 200 {
					t.Errorf("GET %s of host %s is answered %d: %s; want 200", path, host, status, text)
				}
			}
		})
	}
}

// A page that a browser shows may not make jobs on the node that runs beside it.
func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	for name, row := range map[string]struct {
		header http.Header
		want   int
	}{
		"no browser":            {nil, 201},
		"the same origin":       {http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {hs.URL}}, 201},
		"another site":          {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Content-Type": {}}, 403},
		"another site, by name": {http.Header{"Origin": {"http://evil.example"}}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(b.order)
			status, _, text := do(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: row.header})
			if status != row.want {
				t.Errorf("POST /v1/jobs = %d %s, want %d", status, text, row.want)
			}
			if made := len(b.order) - before; made != 0 && row.want != 201 {
				t.Errorf("a refused request made %d jobs", made)
			}
		})
	}
	if status, _, _ := do(t, hs, call{method: "GET", path: "/v1/tasks", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}); status != 200 {
		t.Errorf("GET /v1/tasks from another site = %d, want 200: it changes nothing", status)
	}
}

// Of patches that are made at once up to one ETag, one is taken; without an ETag each is made up to
// what the others left.
func TestPatchesAtOnce(t *testing.T) {
	const patches = 4
	for _, match := range []bool{true, false} {
		t.Run(fmt.Sprintf("if-match %v", match), func(t *testing.T) {
			b := newStub()
			var met sync.WaitGroup // each patch has read the job before the first changes it
			met.Add(patches)
			var once [patches]sync.Once
			var n int
			var mu sync.Mutex
			hs := serve(t, b)
			var j Job
			tag := doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j).Get("ETag")
			b.onReschedule = func() {
				mu.Lock()
				i := n
				n++
				mu.Unlock()
				if i < patches {
					once[i].Do(met.Done)
					met.Wait()
				}
			}
			var statuses [patches]int
			var all sync.WaitGroup
			for i := range patches {
				all.Go(func() {
					h := http.Header{}
					if match {
						h.Set("If-Match", tag)
					}
					statuses[i], _, _ = do(t, hs, call{method: "PATCH", path: "/v1/jobs/" + j.ID.String(), body: fmt.Sprintf(`{"labels":{"l%d":"x"}}`, i), header: h})
				})
			}
			all.Wait()
			counts := map[int]int{}
			for _, s := range statuses {
				counts[s]++
			}
			doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + j.ID.String()}, 200, &j)
			kept := 0
			for name := range j.Labels {
				if strings.HasPrefix(name, "l") {
					kept++
				}
			}
			want := patches
			if match {
				want = 1
			}
			if counts[200] != want || kept != want || match && counts[412] != patches-1 {
				t.Errorf("%d patches at once: statuses %v, %d kept; want %d taken and kept", patches, counts, kept, want)
			}
		})
	}
}

// Where a page ends between two buckets its position is no entry's id, and yet its cursor serves.
func TestCursorBetweenBuckets(t *testing.T) {
	c := cursors{[]byte("0123456789abcdef")}
	id := schema.FirstID(testNow, 0)
	id[8] = 0
	want := runs.Position{After: id}
	cursor, err := c.make("question", &want)
	if err != nil {
		t.Fatal(err)
	}
	var got runs.Position
	if err := c.read(cursor, "question", &got); err != nil || !bytes.Equal(got.After[:], id[:]) {
		t.Errorf("read(make(%s)) = %s, %v", want.After, got.After, err)
	}
}
