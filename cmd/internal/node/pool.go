package node

import (
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// pool returns where the messages come from that only executors with these labels get; nil: there
// are no labels.
func pool(q queue.Pools, labels schema.Labels) queue.Consumer {
	if len(labels) == 0 {
		return nil
	}
	return q.Pool(queue.Pool(labels.String()))
}
