package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// eventQueue is a queue on which clients can publish events.
type eventQueue interface {
	ConsumeEvents(ctx context.Context, f func(ctx context.Context, e queue.PublishedEvent) error) error
}

// eventIntake takes in events that clients published on the queue.
type eventIntake struct {
	publish func(ctx context.Context, tenant, name string, body []byte, key, bodyHash string) error
	refused prometheus.Counter
	note    func(e *queue.PublishedEvent, why error)
}

func newEventIntake(n *Node) *eventIntake {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_events_refused_total", Help: "Events that clients published on NATS and that were refused: their names, or their bodies, or those of the system.",
	})
	n.reg.MustRegister(refused)
	return &eventIntake{
		publish: func(ctx context.Context, tenant, name string, body []byte, key, bodyHash string) error {
			_, err := n.bucketer.Publish(ctx, tenant, name, body, key, bodyHash)
			return err
		},
		refused: refused,
		note: func(e *queue.PublishedEvent, why error) {
			n.log.Warn("an event from nats is refused", "tenant", string(bucketer.Shorten([]byte(e.Tenant), bucketer.MaxName)), "event", string(bucketer.Shorten([]byte(e.Name), bucketer.MaxName)), "err", why)
		},
	}
}

// take takes an event in. What will never be taken in is queue.ErrRefused, and counted; after any other
// error the event comes again, with the same key.
func (i *eventIntake) take(ctx context.Context, e queue.PublishedEvent) error {
	var d request.Decoder
	body, err := request.ReadEvent(&d, e.Name, e.Body)
	if what := bucketer.NameFault(e.Tenant); err == nil && what != "" {
		err = fmt.Errorf("the tenant %s", what)
	}
	if err == nil {
		sum := sha256.Sum256(e.Body)
		err = i.publish(ctx, e.Tenant, e.Name, body, "nats/"+e.Key, "event "+hex.EncodeToString(sum[:]))
		if err == nil || !errors.Is(err, bucketer.ErrKeyReused) && !errors.Is(err, schema.ErrTooLarge) {
			return err
		}
	}
	i.refused.Inc()
	i.note(&e, err)
	return fmt.Errorf("%w: %w", queue.ErrRefused, err)
}
