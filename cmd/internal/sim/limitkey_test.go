package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

const (
	// limitKey is where payloads of limited jobs have the value under which they count.
	limitKey = "/customer/id"
	// limitValues is how many values there are. Besides, some payloads have none.
	limitValues = 3
	// limitBursts are the bursts in which runs are triggered.
	limitBursts = 12
)

// triggerByValue triggers a few runs at once, again and again, for different values. Every other
// payload is so large that it does not lie in the rows of the entries.
func (w *world) triggerByValue(ctx context.Context, l *limited, rng *rand.Rand) {
	l.values = make(map[check.Hash]string)
	for range limitBursts {
		time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / limitBursts))
		for range 3 {
			payload := fmt.Appendf(nil, `{"customer":{"id":"c%d"},"pad":"%s"}`, rng.IntN(limitValues), strings.Repeat("x", rng.IntN(2)*schema.InlinePayload))
			if rng.IntN(8) == 0 {
				payload = []byte(`{"customer":{}}`)
			}
			l.values[check.Hash(0).Add(payload)] = l.spec.Concurrency.Value(payload)
			if b := w.someNode(); b != nil {
				_, _ = b.TriggerJob(ctx, "default", l.id, payload, "", "") // if it was done
			}
		}
	}
}

// valueOf returns what a call of the job counts under. Runs of its schedule have no payload.
func (l *limited) valueOf(s check.Sighting) string {
	switch value, triggered := l.values[s.Sent.Body]; {
	case triggered:
		return value
	case l.spec.Concurrency.Key != "":
		return schema.NoConcurrencyValue
	}
	return ""
}

// byValue returns the calls that count together.
func (l *limited) byValue(calls []check.Sighting) map[string][]check.Sighting {
	groups := make(map[string][]check.Sighting)
	for _, s := range calls {
		value := l.valueOf(s)
		groups[value] = append(groups[value], s)
	}
	return groups
}

// allValues returns what runs of the job may count under, all that there are.
func (l *limited) allValues() []string {
	if l.spec.Concurrency.Key == "" {
		return []string{""}
	}
	all := []string{schema.NoConcurrencyValue}
	for i := range limitValues {
		all = append(all, l.spec.Concurrency.Value(fmt.Appendf(nil, `{"customer":{"id":"c%d"}}`, i)))
	}
	return all
}
