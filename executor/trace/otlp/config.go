package otlp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/executor/trace"
)

// Config says where spans go. The zero value sends none.
type Config struct {
	Endpoint string // URL to which spans are posted; "": nowhere
	Sampler  trace.Sampler

	Queue   int           // spans that may wait; default 2048
	Batch   int           // spans of one request; default 512
	Delay   time.Duration // a span waits so long for others; default 5 s
	Timeout time.Duration // of one request with its repetitions; default 30 s

	Node, Version string // told with the spans
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
}

// maxQueue bounds what an operator may set, in spans of about 1 KiB.
const maxQueue = 1 << 20

// FromEnv returns what the variables of the environment ask for. The error names every fault.
func FromEnv(getenv func(string) string) (Config, error) {
	env := func(name string) string { return strings.TrimSpace(getenv(name)) }
	var c Config
	var faults []error
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Errorf(name+": "+format, args...))
	}
	name := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	if c.Endpoint = env(name); c.Endpoint == "" {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		if base := env(name); base != "" {
			c.Endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
		}
	}
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		c.Endpoint = ""
	default:
		fault("OTEL_TRACES_EXPORTER", "%q is neither otlp nor none", exporter)
	}
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		c.Endpoint = ""
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			fault(name, "is not an http or https URL") // which may hold a password
		}
		for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
			switch p := env(name); p {
			case "", "http/protobuf", "http/json":
			default:
				fault(name, "%q is neither http/protobuf nor http/json", p)
			}
		}
	}
	sampler := env("OTEL_TRACES_SAMPLER")
	if sampler != "" || c.Endpoint != "" {
		var err error
		if c.Sampler, err = trace.ParseSampler(sampler, env("OTEL_TRACES_SAMPLER_ARG")); err != nil {
			faults = append(faults, err)
		}
	}
	number := func(name string, most int) int {
		text := env(name)
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			fault(name, "%q is not a number from 1 to %d", text, most)
		}
		return n
	}
	const day = 24 * 60 * 60 * 1000
	c.Queue, c.Batch = number("OTEL_BSP_MAX_QUEUE_SIZE", maxQueue), number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", maxQueue)
	c.Delay = time.Duration(number("OTEL_BSP_SCHEDULE_DELAY", day)) * time.Millisecond
	c.Timeout = time.Duration(number("OTEL_BSP_EXPORT_TIMEOUT", day)) * time.Millisecond
	return c, errors.Join(faults...)
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	for _, n := range []struct {
		number    *int
		otherwise int
	}{{&c.Queue, 2048}, {&c.Batch, 512}} {
		if *n.number == 0 {
			*n.number = n.otherwise
		}
	}
	for _, d := range []struct {
		span      *time.Duration
		otherwise time.Duration
	}{{&c.Delay, 5 * time.Second}, {&c.Timeout, 30 * time.Second}} {
		if *d.span == 0 {
			*d.span = d.otherwise
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}
