package otlp

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/schema"
)

// Requests returns what traces requests to the API; nil: nothing is sent.
func (x *Exporter) Requests() func(r *http.Request, route string) func(status int, location string) {
	if !x.On() {
		return nil
	}
	return x.request
}

// request begins the span of a request, whose route is known, if its trace is sampled. What it
// returns ends the span, with the status of the answer and its Location; nil: there is no span. If
// the answer says where a run is that was made, the span has a link to the run.
func (x *Exporter) request(r *http.Request, route string) func(status int, location string) {
	id, parent, parentSampled, hasParent := parseParent(r.Header.Get("Traceparent"))
	if !hasParent {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero
	}
	if !x.sampler.SamplesRequest(id, hasParent, parentSampled) {
		return nil
	}
	s := trace.Span{Trace: id, Parent: parent, Name: r.Method + " " + route, Kind: trace.Server, Start: time.Now()}
	binary.BigEndian.PutUint64(s.ID[:], rand.Uint64()|1)
	s.Attrs = append(make([]trace.Attr, 0, 5), trace.Attr{Key: "http.request.method", Text: r.Method}, trace.Attr{Key: "http.route", Text: route})
	return func(status int, location string) {
		s.End = s.Start.Add(time.Since(s.Start))
		s.Attrs = append(s.Attrs, trace.Attr{Key: "http.response.status_code", Number: int64(status)})
		if status >= http.StatusInternalServerError {
			s.Failed = true
			s.Attrs = append(s.Attrs, trace.Attr{Key: "error.type", Text: strconv.Itoa(status)})
		}
		if run, ok := runAt(location); ok {
			s.Links = []trace.Link{trace.LinkTo(run)}
			s.Attrs = append(s.Attrs, trace.Attr{Key: "carillon.run", Text: run.String()})
		}
		x.Send(s)
	}
}

// runAt returns the run that a Location of the API is of: that of a one-off job has the job's id.
func runAt(location string) (schema.RunID, bool) {
	rest, ok := strings.CutPrefix(location, "/v1/jobs/")
	if !ok {
		if rest, ok = strings.CutPrefix(location, "/v1/runs/"); !ok {
			return schema.RunID{}, false
		}
	}
	run, err := schema.ParseEntryID(rest)
	return run, err == nil
}

// parseParent reads a traceparent (W3C Trace Context). ok: it is valid. Of later versions, what
// version 00 says is read.
func parseParent(header string) (id [16]byte, span trace.SpanID, sampled, ok bool) {
	const length = 55
	if len(header) < length || header[2] != '-' || header[35] != '-' || header[52] != '-' || len(header) > length && (header[:2] == "00" || header[length] != '-') {
		return id, span, false, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], header[:2]}, {id[:], header[3:35]}, {span[:], header[36:52]}, {flags[:], header[53:length]}} {
		if strings.ToLower(part.text) != part.text {
			return [16]byte{}, trace.SpanID{}, false, false
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return [16]byte{}, trace.SpanID{}, false, false
		}
	}
	if version[0] == 0xff || id == [16]byte{} || span == (trace.SpanID{}) {
		return [16]byte{}, trace.SpanID{}, false, false
	}
	return id, span, flags[0]&1 != 0, true
}
