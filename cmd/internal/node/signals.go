package node

import (
	"context"
	"fmt"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// subscription is a subscription to signals of other nodes.
type subscription struct {
	what string
	open func() (cancel func(), err error)
}

// topic is a subscription to one topic.
func topic(q queue.Signals, what, name string, f func([]byte)) subscription {
	return subscription{what, func() (func(), error) { return q.SubscribeSignal(name, f) }}
}

// listen opens the subscriptions of the node. If one fails, it cancels those before it.
func (n *Node) listen() (cancel func(), err error) {
	var cancels []func()
	cancel = func() {
		for _, c := range cancels {
			c()
		}
	}
	for _, s := range n.subscriptions() {
		c, err := s.open()
		if err != nil {
			cancel()
			return nil, fmt.Errorf("listen for %s: %w", s.what, err)
		}
		cancels = append(cancels, c)
	}
	return cancel, nil
}

func (n *Node) subscriptions() []subscription {
	var apply func(context.Context) error
	if n.dispatcher != nil {
		apply = n.dispatcher.TaskChanged
	}
	subs := []subscription{
		topic(n.queue, "changed tasks", schema.TopicTask, n.bucketer.TaskCache().Changed),
		{"questions about tasks", func() (func(), error) {
			return n.bucketer.ListenForTaskChanges(n.queue, n.cfg.Node.Name, apply)
		}},
	}
	subs = append(subs, n.administration.subscriptions(n.queue)...)
	subs = append(subs, subscription{"questions about members", n.view.members.answer})
	if n.executor == nil {
		return subs
	}
	return append(subs,
		topic(n.queue, "cancelled runs", schema.TopicCancel, func(body []byte) {
			if id, err := schema.ParseEntryID(string(body)); err == nil {
				n.executor.Cancel(id)
			}
		}),
		topic(n.queue, "waits for slots", schema.TopicSlots, n.executor.SlotsChanged),
		subscription{"questions about targets", func() (func(), error) {
			return n.targets().answer(n.cfg.Node.Name, n.executor)
		}},
	)
}
