package executor

import (
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// remote is the target of a world that is reached by the connection of its executor.
type remote struct {
	*world
	queue.Requester
}

// TestNothingStartsWhereNobodyCanBeReached: attempts that were begun while their executor was not
// connected to NATS ended by their time-out, which an at_most_once run did not survive. They go
// back unbegun, and whoever is connected has them.
func TestNothingStartsWhereNobodyCanBeReached(t *testing.T) {
	for _, g := range []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce} {
		for _, other := range []bool{false, true} {
			name := map[bool]string{false: ", connected again", true: ", by another"}[other]
			t.Run(string(g)+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					reached := func(c *Config) { c.Targets.NATS = remote{w, c.Queue.(queue.Requester)} }
					x1 := w.begin("x1", reached)
					e := w.entry(inAWhile(2*time.Second), guarded(g), func(s *schema.Spec) {
						s.Work.HTTP, s.Work.NATS = nil, &schema.NATSTarget{Subject: "work.a"}
					})
					w.publish(e, time.Now())
					time.Sleep(time.Second) // it has the message in hand
					x1.conn.Cut()
					time.Sleep(time.Minute)
					if len(w.started()) != 0 || w.story(e.ID) != "" || w.open() != 1 || w.deliveries.Load() != 1 {
						t.Errorf("out of reach: %d starts, attempts %q, %d messages, %d deliveries; want none, none, one, one",
							len(w.started()), w.story(e.ID), w.open(), w.deliveries.Load())
					}
					if other {
						w.begin("x2", reached)
					} else {
						x1.conn.Heal()
					}
					time.Sleep(10 * time.Second)
					if got := w.state(e.ID); got != schema.StateSucceeded || w.story(e.ID) != "1 succeeded" || len(w.started()) != 1 || w.open() != 0 {
						t.Errorf("within reach: %s after %q, %d starts, %d messages left; want one that succeeded", got, w.story(e.ID), len(w.started()), w.open())
					}
				})
			})
		}
	}
}
