// Package otlp sends spans to a collector: OTLP over HTTP, as the variables of the environment say
// that all programs with OpenTelemetry share.
//
// # Invariants
//
//  1. Nobody waits for a collector. Spans that find the queue full are dropped, and counted.
//  2. At most Config.Queue spans wait, and Config.Batch are under way. A batch is given up after
//     Config.Timeout, and counted as failed.
//  3. Every span that is given before Close is counted once: as sent, dropped or failed.
//  4. A stop sends what waits, for as long as the context of Close lasts.
//
// # Variables
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
//	        where to; without one nothing is sent
//	OTEL_TRACES_EXPORTER, OTEL_SDK_DISABLED
//	        "none" and "true" turn it off as well
//	OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL
//	        http/protobuf (the default) or http/json; gRPC is refused
//	OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY
//	        and the same with TRACES_: read by the library, from the process's own environment
//	OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
//	        trace.ParseSampler
//	OTEL_BSP_MAX_QUEUE_SIZE, _MAX_EXPORT_BATCH_SIZE, _SCHEDULE_DELAY, _EXPORT_TIMEOUT
//	        bounds of the queue: 2,048 spans, 512 spans, 5,000 ms, 30,000 ms
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//	        what the spans say of the process besides service.name=carillon, its version and node
//
// The others have no effect: spans are few and small, so they have no limits to set, and the only
// propagation is W3C Trace Context. The spans are made here and not by the library's SDK: they are
// written after the fact, under ids that follow from the run.
package otlp
