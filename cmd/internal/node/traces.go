package node

import (
	"context"
	"time"

	"carillon.dev/carillon/executor/trace/otlp"
)

// flushWithin bounds how long a stop waits for a collector to take the last spans.
const flushWithin = 3 * time.Second

// openTraces makes what sends spans. It is closed after all parts have stopped.
func openTraces(n *Node, stops *cleanups) (err error) {
	c := n.opts.Traces
	c.Node, c.Version, c.Logger, c.Registerer = n.cfg.Node.Name, n.opts.Version, n.log.With("part", "traces"), n.reg
	if n.traces, err = otlp.New(c); err != nil {
		return err
	}
	stops.push("traces", func() error {
		bounded, cancel := context.WithTimeout(context.Background(), flushWithin)
		defer cancel()
		return n.traces.Close(bounded)
	})
	return nil
}
