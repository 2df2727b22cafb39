package otlp

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"carillon.dev/carillon/executor/trace"
)

// scope is the name of the library that made the spans.
const scope = "carillon.dev/carillon"

// kinds are the kinds of spans in the words of OTLP.
var kinds = map[trace.Kind]tracepb.Span_SpanKind{
	trace.Internal: tracepb.Span_SPAN_KIND_INTERNAL, trace.Server: tracepb.Span_SPAN_KIND_SERVER, trace.Client: tracepb.Span_SPAN_KIND_CLIENT,
}

// encode returns the batch as it is sent.
func (x *Exporter) encode(batch []trace.Span) *tracepb.ResourceSpans {
	out := make([]*tracepb.Span, len(batch))
	for i := range batch {
		out[i] = spanOf(&batch[i])
	}
	return &tracepb.ResourceSpans{
		Resource:   x.process,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: scope, Version: x.version}, Spans: out}},
	}
}

// sampledFlag is the flag of W3C Trace Context of a span that is sent; the bit of OTLP says that it
// is known whether its parent is of another process, and the third that it is.
const (
	sampledFlag      = uint32(tracepb.SpanFlags_SPAN_FLAGS_TRACE_FLAGS_MASK) & 1
	knowsRemoteFlag  = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	remoteParentFlag = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
)

func spanOf(s *trace.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: kinds[s.Kind], Flags: sampledFlag | knowsRemoteFlag,
		StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End), Attributes: make([]*commonpb.KeyValue, len(s.Attrs)),
	}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
		if s.Kind == trace.Server {
			out.Flags |= remoteParentFlag
		}
	}
	for i, a := range s.Attrs {
		out.Attributes[i] = &commonpb.KeyValue{Key: a.Key, Value: valueOf(a)}
	}
	for i := range s.Links {
		l := &s.Links[i]
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: l.Trace[:], SpanId: l.Span[:]})
	}
	if s.Failed {
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Error}
	}
	return out
}

func valueOf(a trace.Attr) *commonpb.AnyValue {
	if a.Text != "" {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: a.Text}}
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: a.Number}}
}

// nanos returns an instant as ns since the Unix epoch, 0 for what is before that.
func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) } // #nosec G115 -- not negative

// resourceOf returns what the spans say of the process. Attributes of other types than text are
// written as text.
func resourceOf(r *resource.Resource) *resourcepb.Resource {
	out := &resourcepb.Resource{}
	for _, kv := range r.Attributes() {
		out.Attributes = append(out.Attributes, &commonpb.KeyValue{Key: string(kv.Key), Value: textOf(kv.Value)})
	}
	return out
}

func textOf(v attribute.Value) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v.String()}}
}
