// Package otlptest is a collector for tests: it takes spans by OTLP over HTTP and keeps them.
package otlptest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it came. Ids are in hexadecimal.
type Span struct {
	Trace, ID, Parent string // Parent "": none
	Name, Kind        string // Kind as OTLP says it, such as SPAN_KIND_CLIENT
	Start, End        time.Time
	Attrs             map[string]string // numbers too
	Links             []string          // trace-span
	Failed            bool
	Error             string
	Service           string // service.name of the process
}

// Collector keeps the spans that came, in their order.
type Collector struct {
	URL string // to post spans to

	mu     sync.Mutex
	spans  []Span
	came   chan struct{} // closed, and made anew, when spans came
	answer func(http.ResponseWriter, *http.Request) bool
}

// New starts a collector, which ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{came: make(chan struct{})}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL + "/v1/traces"
	return c
}

// Answer has f answer from now on; while it returns true, spans are not taken. Nil: all are taken.
func (c *Collector) Answer(f func(http.ResponseWriter, *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// Spans returns what came so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Wait waits until at least n spans came, and returns all that came.
func (c *Collector) Wait(ctx context.Context, n int) ([]Span, error) {
	for {
		c.mu.Lock()
		spans, came := slices.Clone(c.spans), c.came
		c.mu.Unlock()
		if len(spans) >= n {
			return spans, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return spans, fmt.Errorf("%d spans came, want %d: %w", len(spans), n, ctx.Err())
		}
	}
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	body, err := io.ReadAll(r.Body) // first: the context of a request ends with its caller only then
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if answer != nil && answer(w, r) {
		return
	}
	if err := c.take(body, r.Header.Get("Content-Encoding") == "gzip"); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // with nothing: all was taken
}

func (c *Collector) take(text []byte, zipped bool) error {
	if zipped {
		unzipped, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return err
		}
		if text, err = io.ReadAll(unzipped); err != nil {
			return err
		}
	}
	var in collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &in); err != nil {
		return err
	}
	var spans []Span
	for _, process := range in.GetResourceSpans() {
		service := attrs(process.GetResource().GetAttributes())["service.name"]
		for _, scope := range process.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				spans = append(spans, spanOf(s, service))
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	close(c.came)
	c.came = make(chan struct{})
	return nil
}

func spanOf(s *tracepb.Span, service string) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), Kind: s.GetKind().String(), Start: instant(s.GetStartTimeUnixNano()), End: instant(s.GetEndTimeUnixNano()),
		Attrs: attrs(s.GetAttributes()), Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR, Error: s.GetStatus().GetMessage(), Service: service,
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetTraceId())+"-"+hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

func instant(nanos uint64) time.Time { return time.Unix(0, int64(nanos)).UTC() } // #nosec G115 -- of our time

func attrs(all []*commonpb.KeyValue) map[string]string {
	out := make(map[string]string, len(all))
	for _, a := range all {
		if v, ok := a.GetValue().GetValue().(*commonpb.AnyValue_IntValue); ok {
			out[a.GetKey()] = fmt.Sprint(v.IntValue)
			continue
		}
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}

// Orphans returns the spans whose parent is not among them, each as "name of trace".
func Orphans(spans []Span) []string {
	var orphans []string
	for _, s := range spans {
		if s.Parent != "" && !slices.ContainsFunc(spans, func(p Span) bool { return p.ID == s.Parent && p.Trace == s.Trace }) {
			orphans = append(orphans, s.Name+" of "+s.Trace)
		}
	}
	return orphans
}

// Tree returns the spans as lines, children below their parents and indented, in the order of their
// start.
func Tree(spans []Span) string {
	sorted := slices.Clone(spans)
	slices.SortStableFunc(sorted, func(a, b Span) int { return a.Start.Compare(b.Start) })
	var out strings.Builder
	var below func(parent Span, indent string)
	below = func(parent Span, indent string) {
		for _, s := range sorted {
			if s.Parent != parent.ID || parent.ID != "" && s.Trace != parent.Trace {
				continue
			}
			out.WriteString(indent + s.Name)
			if o := s.Attrs["carillon.outcome"]; o != "" {
				out.WriteString(" " + o)
			}
			out.WriteByte('\n')
			below(s, indent+"  ")
		}
	}
	below(Span{}, "")
	return out.String()
}
