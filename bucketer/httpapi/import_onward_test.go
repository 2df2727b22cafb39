package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/schema"
)

// homed is a stub whose jobs of the label home=us another region serves.
type homed struct {
	*stub
	away error
}

func (h *homed) isAway(labels map[string]string) bool { return labels["home"] == "us" }

func (h *homed) SubmitBatch(ctx context.Context, jobs []bucketer.Job, answer func(int, bucketer.Receipt, error)) {
	var here []bucketer.Job
	var places []int
	for i, j := range jobs {
		if h.isAway(j.Labels) {
			answer(i, bucketer.Receipt{}, h.away)
			continue
		}
		here, places = append(here, j), append(places, i)
	}
	h.stub.SubmitBatch(ctx, here, func(i int, r bucketer.Receipt, err error) { answer(places[i], r, err) })
}

func (h *homed) CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (schema.Job, bool, error) {
	if h.isAway(spec.Labels) {
		return schema.Job{}, false, h.away
	}
	return h.stub.CreateJob(ctx, spec, key, bodyHash)
}

func (h *homed) CreateJobs(ctx context.Context, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error)) {
	createEach(ctx, h, all, answer)
}

// homedIn makes a server one of region eu, whose lines of the label home=us are refused with away.
func homedIn(t *testing.T, b *stub, away error, url string, change ...func(*Config, *Deps)) func(*Config, *Deps) {
	return inRegion(t, "eu", "us", url, append(change, func(_ *Config, d *Deps) {
		h := &homed{b, away}
		d.Jobs, d.Recurring = h, h
	})...)
}

// lineAt is a line of an import at home in us or eu.
func lineAt(home, rest string) string {
	return fmt.Sprintf(`{"nats":{"subject":"a"},"labels":{"home":%q}%s}`, home, rest)
}

// TestLinesGoToTheRegionThatServesTheirHome: each where it belongs, as it came, and each is
// answered as if it had been taken in here.
func TestLinesGoToTheRegionThatServesTheirHome(t *testing.T) {
	inUS, inEU := newStub(), newStub()
	var durable []schema.Durability
	var mu sync.Mutex
	inUS.onBatch = func(jobs []bucketer.Job) {
		mu.Lock()
		defer mu.Unlock()
		for _, j := range jobs {
			durable = append(durable, j.Durability)
		}
	}
	keys := newAdminStub()
	requests := make(chan *http.Request, 10)
	us := serve(t, inUS, inRegion(t, "us", "eu", "", keys.desk))
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Clone(context.Background())
		us.Config.Handler.ServeHTTP(w, r)
	}))
	defer spy.Close()
	eu := serve(t, inEU, homedIn(t, inEU, servedBy("eu", "us"), spy.URL, keys.desk))
	keys.key("a/operator")
	text := strings.Join([]string{
		lineAt("us", `,"key":"k"`),
		"",
		lineAt("eu", ""),
		`{"nats":{}}`,
		lineAt("us", `,"name":"hourly","schedule":{"every":"1h"}`),
		lineAt("us", `,"task":"none"`), // it has two kinds of work
		lineAt("us", `,"key":"k"`) + "\r",
	}, "\n")
	send := func(query string) (string, *ImportSummary, []answerLine) {
		t.Helper()
		header := http.Header{"Content-Type": {ndjson}, "Authorization": {"Bearer " + secret("a/operator")}, "Carillon-Tenant": {"a"}}
		status, _, body := do(t, eu, call{method: "POST", path: importPath + query, body: text, header: header})
		if status != 200 {
			t.Fatalf("import = %d %s, want 200", status, body)
		}
		lines := readAnswers(t, strings.NewReader(string(body)))
		said, sum := statuses(t, lines)
		return said, sum, lines
	}
	said, sum, lines := send("?durability=everywhere")
	if said != "1:201 3:201 4:422 5:201 6:422 7:200" || sum == nil || *sum != (ImportSummary{Lines: 6, Created: 3, Existing: 1, Failed: 2}) {
		t.Errorf("answers %s, summary %+v, want each line answered by its region", said, sum)
	}
	ids := make(map[int64]schema.JobID)
	for _, l := range lines {
		ids[l.Line] = l.ID
	}
	if len(inUS.order) != 1 || len(inUS.jobs.byID) != 1 || len(inEU.order) != 1 || len(inEU.jobs.byID) != 0 {
		t.Fatalf("us has %d runs and %d jobs, eu %d and %d; want one run each, and the job in us", len(inUS.order), len(inUS.jobs.byID), len(inEU.order), len(inEU.jobs.byID))
	}
	if one := inUS.runs[inUS.order[0]]; one.Entry.Spec.Tenant != "a" || one.Entry.Spec.Key != "k" || ids[1] != schema.JobOf(one.ID) || ids[7] != ids[1] || inUS.jobs.byID[ids[5]] == nil {
		t.Errorf("us has %+v, the answers %v; want the line with its tenant and key, and its ids", one.Entry.Spec, ids)
	}
	if n := len(requests); n != 1 {
		t.Errorf("%d requests went to us, want one for the chunk", n)
	}
	if r := <-requests; r.Header.Get(forward.Header) != "eu" || r.URL.RawQuery != "durability=everywhere" || r.ContentLength <= 0 {
		t.Errorf("the request has header %v, query %q, length %d; want it marked, with the durability, and with an end", r.Header, r.URL.RawQuery, r.ContentLength)
	}
	for _, d := range durable {
		if d != schema.DurableEverywhere {
			t.Errorf("us took lines in with durability %q, want that of the import", durable)
		}
	}
	if said, sum, _ = send("?validate_only=true"); said != "1:200 3:200 4:422 5:200 6:422 7:200" || len(requests) != 0 {
		t.Errorf("only checked: %s, %+v, and %d requests; want that it is checked here", said, sum, len(requests))
	}
	if said, sum, _ = send("?results=errors"); said != "4:422 5:409 6:422" || sum.Existing != 2 {
		t.Errorf("errors alone: %s, %+v, want three (the name is taken), and the lines with the key known", said, sum)
	}
}

// TestLinesThatAreNotSentOn: each says why, and none says that it is unwritten if it may be. What
// is at home here is taken in.
func TestLinesThatAreNotSentOn(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	answering := func(status int, contentType, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	aborting := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(aborting.Close)
	first := `{"line":1,"id":"01932e5a-7c00-8003-8d2f-5a1b9c3e7f60","status":201}` + "\n"
	busy, err := json.Marshal(plain(429, "16 imports are under way."))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		url    string
		away   error
		header http.Header
		want   string // of the lines, in order
		detail string // of the last
	}{
		"no address":                    {"", servedBy("eu", "us"), nil, "not-served created not-served", "home us is not served by region eu: region us serves it (epoch 3)"},
		"unreachable":                   {gone.URL, servedBy("eu", "us"), nil, "not-served created not-served", "It was to be sent on to that region, which cannot be reached"},
		"nobody knows who serves it":    {aborting.URL, servedBy("eu", ""), nil, "not-served created not-served", "has not been read yet"},
		"lost while it was written":     {aborting.URL, &bothErrors{}, nil, "unknown created unknown", "lost its lease on home us"},
		"another region sent it on":     {aborting.URL, servedBy("eu", "us"), http.Header{forward.Header: {"us"}}, "not-served created not-served", "region us serves it"},
		"sent, and no answer":           {aborting.URL, servedBy("eu", "us"), nil, "unknown created unknown", "sent on to region us, which serves home us"},
		"a proxy answers":               {answering(502, "text/html", "no backend"), servedBy("eu", "us"), nil, "unknown created unknown", "sent on to region us"},
		"a proxy that takes no bodies":  {answering(413, "text/html", "too large"), servedBy("eu", "us"), nil, "unknown created unknown", "sent on to region us"},
		"refused as a whole":            {answering(429, problemJSON, string(busy)), servedBy("eu", "us"), nil, "about:blank created about:blank", "Region us, which serves its home, refused this line and others together. 16 imports are under way."},
		"cut after the first":           {answering(200, ndjson, first), servedBy("eu", "us"), nil, "created created unknown", "sent on to region us"},
		"it ends before its end":        {answering(200, ndjson, first+`{"error":{"type":"about:blank","title":"x","status":503}}`), servedBy("eu", "us"), nil, "created created unknown", "sent on to region us"},
		"a summary too early":           {answering(200, ndjson, first+`{"summary":{"lines":2}}`), servedBy("eu", "us"), nil, "created created unknown", "sent on to region us"},
		"a line that was not sent":      {answering(200, ndjson, first+`{"line":3,"status":201}`), servedBy("eu", "us"), nil, "created created unknown", "sent on to region us"},
		"no NDJSON":                     {answering(200, ndjson, "hello"), servedBy("eu", "us"), nil, "unknown created unknown", "sent on to region us"},
		"it serves the home no more":    {answering(200, ndjson, first+`{"line":2,"status":503,"error":{"type":"urn:carillon:problem:not-served","title":"t","status":503,"detail":"home us is not served by region us"}}`+"\n"+`{"summary":{"lines":2}}`), servedBy("eu", "us"), nil, "created created not-served", "home us is not served by region us"},
		"another region without an URL": {aborting.URL, servedBy("eu", "ap"), nil, "not-served created not-served", "region ap serves it"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStub()
			eu := serve(t, b, homedIn(t, b, row.away, row.url))
			text := lineAt("us", "") + "\n" + lineAt("eu", "") + "\n" + lineAt("us", "")
			header := http.Header{"Content-Type": {ndjson}}
			for name, values := range row.header {
				header[http.CanonicalHeaderKey(name)] = values
			}
			status, _, body := do(t, eu, call{method: "POST", path: importPath, body: text, header: header})
			if status != 200 {
				t.Fatalf("import = %d %s, want 200", status, body)
			}
			said, detail := make([]string, 3), ""
			for _, l := range readAnswers(t, strings.NewReader(string(body))) {
				switch {
				case l.Summary != nil:
				case l.Error == nil:
					said[l.Line-1] = "created"
				default:
					if said[l.Line-1] = l.Error.Kind(); l.Line == 3 {
						detail = l.Error.Detail
					}
				}
			}
			if got := strings.Join(said, " "); got != row.want || !strings.Contains(detail, row.detail) {
				t.Errorf("lines %s, %q; want %s, %q", got, detail, row.want, row.detail)
			}
		})
	}
}

// slowWay is a way to another region that answers nothing until it is told to.
type slowWay struct {
	release chan struct{}

	mu          sync.Mutex
	most, count int
	largest     int // bytes of a body
	lines       int // of all bodies
}

func (*slowWay) Knows(string) bool { return true }

func (w *slowWay) Send(_ context.Context, _ string, r forward.Request, answer func(*http.Response)) error {
	n := strings.Count(string(r.Body), "\n")
	w.mu.Lock()
	w.count++
	w.most, w.largest, w.lines = max(w.most, w.count), max(w.largest, len(r.Body)), w.lines+n
	w.mu.Unlock()
	<-w.release
	w.mu.Lock()
	w.count--
	w.mu.Unlock()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"line":%d,"id":"01932e5a-7c00-8003-8d2f-5a1b9c3e7f60","status":201}`+"\n", i+1)
	}
	fmt.Fprintf(&b, `{"summary":{"lines":%d}}`+"\n", n)
	answer(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(b.String()))})
	return nil
}

// TestARegionThatIsSlowHoldsImportsBack: no more is read than fits the chunks in flight, and no
// more is on its way to the region than there are places, whatever callers send. Each line is
// answered in the end.
func TestARegionThatIsSlowHoldsImportsBack(t *testing.T) {
	const imports, length = 4, 8 << 20
	synctest.Test(t, func(t *testing.T) {
		b := newStub()
		way := &slowWay{release: make(chan struct{})}
		h := &homed{b, servedBy("eu", "us")}
		s, err := New(Config{Chunks: 4, ChunkLines: 200}, Deps{Jobs: h, Runs: b, Tasks: b, Recurring: h, Workflows: b, Events: b, Joins: b, Homes: someHomes(t), Forward: way})
		if err != nil {
			t.Fatal(err)
		}
		one := lineAt("us", `,"payload":"`+strings.Repeat("x", 4000)+`"`) + "\n"
		var served sync.WaitGroup
		var texts []*countingReader
		var answers []*httptest.ResponseRecorder
		for range imports {
			text, rec := &countingReader{line: []byte(one), limit: length}, httptest.NewRecorder()
			texts, answers = append(texts, text), append(answers, rec)
			served.Go(func() { s.ServeHTTP(rec, httptest.NewRequest("POST", importPath+"?results=errors", text)) })
		}
		synctest.Wait() // until nobody can go on
		if way.most != onwardAtOnce || way.largest > maxOnward {
			t.Errorf("%d imports of at most %d bytes are on their way, want %d of at most %d", way.most, way.largest, onwardAtOnce, maxOnward)
		}
		for _, text := range texts {
			if n := text.count(); n > 6*200*len(one) {
				t.Errorf("%d bytes were read of an import, want no more than 4 chunks, one that is gathered, and buffers", n)
			}
			text.stop()
		}
		close(way.release)
		served.Wait()
		created := 0
		for _, rec := range answers {
			_, sum := statuses(t, readAnswers(t, rec.Body))
			if sum == nil || sum.Failed > 0 {
				t.Fatalf("summary %+v, want no line failed", sum)
			}
			created += int(sum.Created)
		}
		if created == 0 || created != way.lines || way.most != onwardAtOnce {
			t.Errorf("%d lines created, %d sent on, at most %d at once; want all that were sent on", created, way.lines, way.most)
		}
	})
}

// TestLinesOnTheirWayWhenTheNodeStops: what was sent on is brought to its end, and what waits for a
// place is refused as something that was not taken in.
func TestLinesOnTheirWayWhenTheNodeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStub()
		way := &slowWay{release: make(chan struct{})}
		h := &homed{b, servedBy("eu", "us")}
		s, err := New(Config{Chunks: onwardAtOnce + 1, ChunkLines: 1}, Deps{Jobs: h, Runs: b, Tasks: b, Recurring: h, Workflows: b, Events: b, Joins: b, Homes: someHomes(t), Forward: way})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat(lineAt("us", "")+"\n", onwardAtOnce+1)
		ctx, leave := context.WithCancel(t.Context())
		rec := httptest.NewRecorder()
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.ServeHTTP(rec, httptest.NewRequest("POST", importPath, strings.NewReader(text)).WithContext(ctx))
		}()
		synctest.Wait()
		leave() // the caller; what was begun goes on
		s.endImports()
		synctest.Wait()
		close(way.release)
		<-served
		var created, refused int
		for _, l := range readAnswers(t, rec.Body) {
			switch {
			case l.Line == 0:
			case l.Error == nil:
				created++
			case l.Error.Kind() == notServedKind:
				refused++
			}
		}
		if created != onwardAtOnce || refused != 1 {
			t.Errorf("%d lines created, %d refused, want %d and the one that waited", created, refused, onwardAtOnce)
		}
	})
}
