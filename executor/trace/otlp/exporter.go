package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"carillon.dev/carillon/executor/trace"
)

// Exporter sends spans. It is a trace.Sink.
type Exporter struct {
	sampler trace.Sampler
	client  otlptrace.Client // nil: nothing is sent
	process *resourcepb.Resource
	version string
	log     *slog.Logger
	counts  counts
	storm   trace.Storm

	batch   int
	delay   time.Duration
	timeout time.Duration
	queue   chan trace.Span

	stop     sync.Once
	stopping chan struct{} // closed by Close
	stopped  chan struct{} // closed when nothing is sent any more
	life     context.Context
	end      context.CancelCauseFunc
	failing  bool // the last batch failed; run's
}

// counts are the spans by what became of them.
type counts struct{ sent, dropped, failed prometheus.Counter }

// New returns an Exporter, which sends until Close if c names an endpoint. No I/O is done before
// there is a span.
func New(c Config) (*Exporter, error) {
	c = c.withDefaults()
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "trace", Name: "spans_total",
		Help: "Spans of traces, by what became of them: sent to the collector, dropped since the queue was full, or failed, since the collector did not take them; spared are attempts and runs that failed or were late, beyond some 100 runs a second.",
	}, []string{"result"})
	x := &Exporter{
		sampler: c.Sampler, version: c.Version, log: c.Logger,
		counts: counts{spans.WithLabelValues("sent"), spans.WithLabelValues("dropped"), spans.WithLabelValues("failed")},
		batch:  c.Batch, delay: c.Delay, timeout: c.Timeout,
	}
	x.storm.Spared = spans.WithLabelValues("spared").Inc
	if err := c.Registerer.Register(spans); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if c.Endpoint == "" {
		return x, nil
	}
	described, err := resource.New(context.Background(), resource.WithAttributes(
		attribute.String("service.name", "carillon"), attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Node),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	x.process = resourceOf(described)
	x.client = otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(c.Endpoint))
	if err := x.client.Start(context.Background()); err != nil {
		return nil, fmt.Errorf("exporter of traces: %w", err)
	}
	x.queue = make(chan trace.Span, c.Queue)
	x.stopping, x.stopped = make(chan struct{}), make(chan struct{})
	x.life, x.end = context.WithCancelCause(context.Background())
	go x.run()
	return x, nil
}

// On reports whether spans are sent.
func (x *Exporter) On() bool { return x != nil && x.client != nil }

// Tracer returns what an executor needs.
func (x *Exporter) Tracer() trace.Tracer {
	if x == nil {
		return trace.Tracer{}
	}
	t := trace.Tracer{Sampler: x.sampler}
	if x.On() {
		t.Sink, t.Storm = x, &x.storm
	}
	return t
}

// Send implements trace.Sink.
func (x *Exporter) Send(spans ...trace.Span) {
	for i := range spans {
		select {
		case <-x.stopping:
			x.counts.dropped.Inc()
			continue
		default:
		}
		select {
		case x.queue <- spans[i]:
		default:
			x.counts.dropped.Inc()
		}
	}
}

// Close sends what waits until ctx ends, and drops the rest. It returns why something was dropped.
func (x *Exporter) Close(ctx context.Context) error {
	if !x.On() {
		return nil
	}
	x.stop.Do(func() { close(x.stopping) })
	select {
	case <-x.stopped:
	case <-ctx.Done():
		x.end(ctx.Err()) // what is under way ends at once
		<-x.stopped
	}
	x.end(nil)
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// run sends batches until Close.
func (x *Exporter) run() {
	defer close(x.stopped)
	defer func() { _ = x.client.Stop(context.Background()) }() // it fails for its context alone
	batch := make([]trace.Span, 0, x.batch)
	flush := func() {
		x.send(batch)
		clear(batch) // what it refers to may go
		batch = batch[:0]
	}
	timer := time.NewTimer(x.delay)
	defer timer.Stop()
	for {
		select {
		case s := <-x.queue:
			if batch = append(batch, s); len(batch) < x.batch {
				continue
			}
		case <-timer.C:
		case <-x.stopping:
			for {
				select {
				case s := <-x.queue:
					if batch = append(batch, s); len(batch) == x.batch {
						flush()
					}
					continue
				default:
				}
				flush()
				return
			}
		}
		flush()
		timer.Reset(x.delay)
	}
}

// send sends a batch, or counts it as failed.
func (x *Exporter) send(batch []trace.Span) {
	if len(batch) == 0 {
		return
	}
	if x.life.Err() != nil {
		x.counts.dropped.Add(float64(len(batch)))
		return
	}
	ctx, cancel := context.WithTimeout(x.life, x.timeout)
	defer cancel()
	err := x.client.UploadTraces(ctx, []*tracepb.ResourceSpans{x.encode(batch)})
	if err != nil {
		x.counts.failed.Add(float64(len(batch)))
		if !x.failing {
			x.log.Warn("traces cannot be sent: they are dropped until the collector takes them", "err", err)
		}
	} else {
		x.counts.sent.Add(float64(len(batch)))
		if x.failing {
			x.log.Info("traces are sent again")
		}
	}
	x.failing = err != nil
}
