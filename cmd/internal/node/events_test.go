package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func TestEventsFromNATSAreChecked(t *testing.T) {
	var fails error
	var taken []string
	refused := prometheus.NewCounter(prometheus.CounterOpts{Name: "x"})
	i := &eventIntake{
		publish: func(_ context.Context, tenant, name string, body []byte, key, _ string) error {
			taken = append(taken, strings.Join([]string{tenant, name, string(body), key}, " "))
			return fails
		},
		refused: refused, note: func(*queue.PublishedEvent, error) {},
	}
	good := queue.PublishedEvent{Tenant: "acme.eu", Name: "file.uploaded", Body: []byte(`{"a": 1}`), Key: "k"}
	if err := i.take(t.Context(), good); err != nil || len(taken) != 1 || taken[0] != `acme.eu file.uploaded {"a": 1} nats/k` {
		t.Errorf("take = %v, took in %q", err, taken)
	}
	for what, change := range map[string]func(e *queue.PublishedEvent){
		"no name":           func(e *queue.PublishedEvent) { e.Name = "" },
		"a bad name":        func(e *queue.PublishedEvent) { e.Name = "A" },
		"a bad tenant":      func(e *queue.PublishedEvent) { e.Tenant = "" },
		"one of the system": func(e *queue.PublishedEvent) { e.Name = "run.failed" },
		"a body of no JSON": func(e *queue.PublishedEvent) { e.Body = []byte("x") },
		"no body":           func(e *queue.PublishedEvent) { e.Body = nil },
		"a body of 64 KiB":  func(e *queue.PublishedEvent) { e.Body = []byte(`"` + strings.Repeat("x", schema.MaxPayload) + `"`) },
	} {
		e := good
		change(&e)
		if err := i.take(t.Context(), e); !errors.Is(err, queue.ErrRefused) || len(taken) != 1 {
			t.Errorf("%s: take = %v, took in %q", what, err, taken[1:])
		}
	}
	fails = schema.ErrUnavailable
	if err := i.take(t.Context(), good); errors.Is(err, queue.ErrRefused) || !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("while the store fails: %v", err)
	}
	fails = bucketer.ErrKeyReused
	if err := i.take(t.Context(), good); !errors.Is(err, queue.ErrRefused) {
		t.Errorf("a message id with another body: %v", err)
	}
}
