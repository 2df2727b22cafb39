package otlp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/executor/trace/otlp/otlptest"
	"carillon.dev/carillon/schema"
)

// patience bounds what a test waits for that should come at once.
const patience = time.Minute

// open makes an exporter, which is closed at the end of the test. Nothing is sent before a batch is
// full or Close, unless c says otherwise.
func open(t *testing.T, c Config) *Exporter {
	t.Helper()
	if c.Delay == 0 {
		c.Delay = time.Hour
	}
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeIn(x, patience) })
	return x
}

func sampler(t *testing.T, name, arg string) trace.Sampler {
	t.Helper()
	s, err := trace.ParseSampler(name, arg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeIn(x *Exporter, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return x.Close(ctx)
}

// spansOf returns n spans.
func spansOf(n int) []trace.Span {
	spans := make([]trace.Span, n)
	for i := range spans {
		spans[i] = trace.Span{
			Trace: [16]byte{1, 15: byte(i)}, ID: trace.SpanID{1, 7: byte(i)}, Name: "s" + strconv.Itoa(i),
			Start: time.Unix(1_790_000_000, 1), End: time.Unix(1_790_000_001, 2),
		}
	}
	return spans
}

// counted returns what became of the spans.
func (x *Exporter) counted() (sent, dropped, failed int) {
	return int(testutil.ToFloat64(x.counts.sent)), int(testutil.ToFloat64(x.counts.dropped)), int(testutil.ToFloat64(x.counts.failed))
}

// TestSpansComeAsTheyAre: a full batch is sent at once, and everything of a span comes.
func TestSpansComeAsTheyAre(t *testing.T) {
	c := otlptest.New(t)
	x := open(t, Config{Endpoint: c.URL, Batch: 2, Node: "a", Version: "v1"})
	s := trace.Span{
		Trace: [16]byte{0xab, 15: 1}, ID: trace.SpanID{0xcd, 7: 1}, Parent: trace.SpanID{7: 2}, Name: "attempt 1", Kind: trace.Client,
		Start: time.Unix(1_790_000_000, 123), End: time.Unix(1_790_000_001, 456), Attrs: []trace.Attr{{Key: "a", Text: "b"}, {Key: "n", Number: 7}, {Key: "none"}},
		Links: []trace.Link{{Trace: [16]byte{15: 9}, Span: trace.SpanID{7: 8}}}, Failed: true, Error: "why",
	}
	x.Send(s, spansOf(1)[0])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := c.Wait(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	g := got[0]
	if g.Trace != "ab"+strings.Repeat("0", 28)+"01" || g.ID != "cd00000000000001" || g.Parent != "0000000000000002" || g.Name != s.Name || g.Kind != "SPAN_KIND_CLIENT" ||
		!g.Start.Equal(s.Start) || !g.End.Equal(s.End) || !g.Failed || g.Error != "why" || g.Attrs["a"] != "b" || g.Attrs["n"] != "7" || g.Attrs["none"] != "0" ||
		len(g.Links) != 1 || g.Links[0] != strings.Repeat("0", 31)+"9-0000000000000008" || g.Service != "carillon" {
		t.Errorf("the span came as %+v", g)
	}
}

// TestAStopSendsWhatWaits: spans that fill no batch come with Close, and none afterwards.
func TestAStopSendsWhatWaits(t *testing.T) {
	c := otlptest.New(t)
	x := open(t, Config{Endpoint: c.URL, Batch: 10})
	x.Send(spansOf(7)...)
	if err := closeIn(x, patience); err != nil {
		t.Errorf("Close = %v", err)
	}
	if n := len(c.Spans()); n != 7 {
		t.Errorf("%d spans came with Close, want 7", n)
	}
	x.Send(spansOf(2)...)
	if sent, dropped, failed := x.counted(); sent != 7 || dropped != 2 || failed != 0 {
		t.Errorf("%d were sent, %d dropped, %d failed; want 7, 2 and 0", sent, dropped, failed)
	}
}

// TestADeadCollectorChangesOnlyCounters: nobody waits for a collector that refuses connections,
// answers 500 or does not answer. At most a queue and a batch of spans are kept, the others are
// dropped, each is counted, and a stop ends in its time.
func TestADeadCollectorChangesOnlyCounters(t *testing.T) {
	const queue, batch, given = 16, 4, 200
	refusing := httptest.NewServer(http.NotFoundHandler())
	refusing.Close()
	for _, d := range []struct {
		name   string
		url    string
		answer func(http.ResponseWriter, *http.Request) bool
		hangs  bool
	}{
		{name: "refuses", url: refusing.URL + "/v1/traces"},
		{name: "answers 500", answer: func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }},
		{name: "is full", answer: func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }, hangs: true},
		{name: "hangs", answer: func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, hangs: true},
	} {
		t.Run(d.name, func(t *testing.T) {
			url := d.url
			asked := make(chan struct{}, given)
			if url == "" {
				c := otlptest.New(t)
				url = c.URL
				c.Answer(func(w http.ResponseWriter, r *http.Request) bool {
					asked <- struct{}{}
					return d.answer(w, r)
				})
			}
			x := open(t, Config{Endpoint: url, Queue: queue, Batch: batch, Delay: time.Millisecond})
			if d.hangs { // one batch is under way: what is sent then finds nobody who takes it
				x.Send(spansOf(batch)...)
				<-asked
			}
			x.Send(spansOf(given)...) // returns: nothing waits
			if waiting := len(x.queue); waiting > queue {
				t.Errorf("%d spans wait, more than %d", waiting, queue)
			}
			if _, dropped, _ := x.counted(); d.hangs && dropped != given-queue {
				t.Errorf("%d spans were dropped while nothing was taken, want %d", dropped, given-queue)
			}
			within := patience
			if d.hangs {
				within = 50 * time.Millisecond
			}
			err := closeIn(x, within)
			if d.hangs != (err != nil) {
				t.Errorf("Close = %v", err)
			}
			all := given
			if d.hangs {
				all += batch
			}
			if sent, dropped, failed := x.counted(); sent != 0 || failed == 0 || dropped+failed != all {
				t.Errorf("of %d spans %d were sent, %d dropped and %d failed", all, sent, dropped, failed)
			}
		})
	}
}

// TestItIsSentAgain: once the collector takes spans again, they come.
func TestItIsSentAgain(t *testing.T) {
	c := otlptest.New(t)
	ill := make(chan struct{}, 1)
	c.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(500)
		c.Answer(nil)
		ill <- struct{}{}
		return true
	})
	x := open(t, Config{Endpoint: c.URL, Batch: 1})
	x.Send(spansOf(1)...)
	<-ill
	x.Send(spansOf(3)...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.Wait(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if err := closeIn(x, patience); err != nil {
		t.Errorf("Close = %v", err)
	}
	if sent, dropped, failed := x.counted(); sent != 3 || dropped != 0 || failed != 1 {
		t.Errorf("%d were sent, %d dropped, %d failed; want 3, 0 and 1", sent, dropped, failed)
	}
}

// TestNothingIsSentUnasked: without an endpoint there is no sink, no goroutine, no span of a
// request; the counter is there.
func TestNothingIsSentUnasked(t *testing.T) {
	reg := prometheus.NewRegistry()
	x := open(t, Config{Registerer: reg})
	tracer := x.Tracer()
	if x.On() || tracer.On() || x.Requests() != nil {
		t.Error("without an endpoint it is on")
	}
	if n, err := testutil.GatherAndCount(reg, "carillon_trace_spans_total"); n != 4 || err != nil {
		t.Errorf("%d series of carillon_trace_spans_total, %v; want 4", n, err)
	}
	if none := (*Exporter)(nil); none.On() || none.Tracer() != (trace.Tracer{}) {
		t.Error("no exporter is on")
	}
}

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want Config
		err  []string
	}{
		{name: "nothing"},
		{name: "an endpoint", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, want: Config{Endpoint: "http://c:4318/v1/traces", Sampler: sampler(t, "", "")}},
		{
			name: "one for traces",
			env: map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://d/x", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25",
				"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "5", "OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BSP_EXPORT_TIMEOUT": "200",
			},
			want: Config{Endpoint: "https://d/x", Sampler: sampler(t, "traceidratio", "0.25"), Queue: 10, Batch: 5, Delay: 100 * time.Millisecond, Timeout: 200 * time.Millisecond},
		},
		{name: "a sampler alone is for callees", env: map[string]string{"OTEL_TRACES_SAMPLER": "always_on"}, want: Config{Sampler: sampler(t, "always_on", "")}},
		{
			name: "no exporter", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"},
		},
		{name: "disabled", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}},
		{name: "a bad sampler without an endpoint", env: map[string]string{"OTEL_TRACES_SAMPLER": "never"}, err: []string{`OTEL_TRACES_SAMPLER: "never"`}},
		{
			name: "every fault",
			env: map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318", "OTEL_TRACES_EXPORTER": "jaeger", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "sometimes",
				"OTEL_BSP_MAX_QUEUE_SIZE": "0", "OTEL_BSP_SCHEDULE_DELAY": "5s",
			},
			err: []string{"OTEL_EXPORTER_OTLP_ENDPOINT: is not", "OTEL_TRACES_EXPORTER: \"jaeger\"", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: \"grpc\"", "OTEL_TRACES_SAMPLER: \"sometimes\"", "OTEL_BSP_MAX_QUEUE_SIZE: \"0\"", "OTEL_BSP_SCHEDULE_DELAY: \"5s\""},
		},
	} {
		got, err := FromEnv(func(name string) string { return c.env[name] })
		switch {
		case len(c.err) > 0:
			for _, want := range c.err {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: FromEnv = %v, want an error that says %q", c.name, err, want)
				}
			}
		case err != nil:
			t.Errorf("%s: FromEnv: %v", c.name, err)
		case got != c.want:
			t.Errorf("%s: FromEnv = %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestRequests: a request has a span if its trace is sampled, below that of its caller, and a link
// to the run that it made.
func TestRequests(t *testing.T) {
	run := schema.MakeEntryID(time.Unix(1_790_000_000, 0), 3, 5)
	job := schema.MakeJobID(time.Unix(1_790_000_000, 0), 3, 5)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for _, c := range []struct {
		name, sampler, parent, location string
		status                          int
		want                            string // trace, parent, link and whether it failed; "": no span
	}{
		{"sampled by the caller", "parentbased_always_off", parent + "01", "/v1/jobs/" + run.String(), 201, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 link ok"},
		{"not sampled by the caller", "parentbased_always_on", parent + "00", "", 201, ""},
		{"begun here", "parentbased_always_on", "", "", 503, "new none no-link failed"},
		{"a run was triggered", "always_on", "", "/v1/runs/" + run.String(), 201, "new none link ok"},
		{"a job with many runs", "always_on", "", "/v1/jobs/" + job.String(), 201, "new none no-link ok"},
		{"no valid parent", "parentbased_always_off", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "", 201, ""},
		{"zero parent", "parentbased_always_off", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "", 201, ""},
		{"a version to come", "parentbased_always_off", "cc" + parent[2:] + "01-more", "", 404, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 no-link ok"},
		{"too long for version 00", "parentbased_always_off", parent + "01-more", "", 201, ""},
		{"off", "always_off", "", "", 201, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			col := otlptest.New(t)
			x := open(t, Config{Endpoint: col.URL, Sampler: sampler(t, c.sampler, "")})
			r := httptest.NewRequest(http.MethodPost, "/v1/jobs?secret=x", nil)
			r.Header.Set("Traceparent", c.parent)
			if end := x.Requests()(r, "/v1/jobs"); end != nil {
				end(c.status, c.location)
			}
			if err := closeIn(x, patience); err != nil {
				t.Fatal(err)
			}
			spans := col.Spans()
			if c.want == "" {
				if len(spans) > 0 {
					t.Errorf("the spans %+v came, want none", spans)
				}
				return
			}
			if len(spans) != 1 {
				t.Fatalf("%d spans came, want one", len(spans))
			}
			s := spans[0]
			got := []string{s.Trace, s.Parent, "no-link", "ok"}
			if !strings.Contains(c.parent, s.Trace) || c.parent == "" {
				got[0] = "new"
			}
			if s.Parent == "" {
				got[1] = "none"
			}
			if len(s.Links) == 1 && s.Links[0] == trace.ID(run)+"-"+trace.ID(run)[16:] && s.Attrs["carillon.run"] == run.String() {
				got[2] = "link"
			}
			if s.Failed {
				got[3] = "failed"
			}
			if text := strings.Join(got, " "); text != c.want || s.Name != "POST /v1/jobs" || s.Kind != "SPAN_KIND_SERVER" || s.Attrs["http.response.status_code"] != strconv.Itoa(c.status) {
				t.Errorf("%s: the span %+v came, want %s", text, s, c.want)
			}
		})
	}
}
