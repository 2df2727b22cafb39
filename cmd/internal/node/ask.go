package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// answersWithin bounds the wait for the answers of other nodes.
	answersWithin = time.Second
	// silentWithin bounds the wait for nodes that did not answer the time before.
	silentWithin = 100 * time.Millisecond
)

// survey is a question to nodes: a signal that names a topic for the answers.
type survey struct {
	queue   queue.Signals
	log     *slog.Logger
	topic   string
	body    func(reply string) any // of the signal, as JSON
	members []string               // who should answer
	silent  map[string]bool        // of those, who did not answer the time before
}

// answer is what one node answers.
type answer interface{ from() string }

// askNodes asks, and calls take with the answer of each node: of members, and of others that heard of
// it. It returns when all members have answered, or after answersWithin, with those that have not.
func askNodes[A answer](ctx context.Context, s survey, take func(A)) (missing []string, err error) {
	reply := s.topic + "." + strings.ToLower(rand.Text())
	heard := make(chan A, 64)
	stop := make(chan struct{})
	cancel, err := s.queue.SubscribeSignal(reply, func(body []byte) {
		var a A
		if err := json.Unmarshal(body, &a); err != nil {
			s.log.Warn("the answer of a node cannot be read", "topic", s.topic, "err", err)
			return
		}
		select {
		case heard <- a:
		case <-stop:
		}
	})
	if err != nil {
		return s.members, fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
	}
	defer cancel()
	defer close(stop) // runs first: a handler of an answer must not wait for us
	body, err := json.Marshal(s.body(reply))
	if err != nil {
		return s.members, fmt.Errorf("encode the question: %w", err)
	}
	s.queue.Signal(s.topic, body)
	missing = slices.Clone(s.members)
	answered := make(map[string]bool)
	soon, late := time.NewTimer(silentWithin), time.NewTimer(answersWithin)
	defer soon.Stop()
	defer late.Stop()
	patient := true // those who are usually silent may still answer
	for len(missing) > 0 && (patient || slices.ContainsFunc(missing, func(name string) bool { return !s.silent[name] })) {
		select {
		case a := <-heard:
			if name := a.from(); !answered[name] {
				answered[name] = true
				missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
				take(a)
			}
		case <-soon.C:
			patient = false
		case <-late.C:
			return missing, nil
		case <-ctx.Done():
			return missing, ctx.Err()
		}
	}
	return missing, nil
}

// replyTopics are the forms of the topics of answers, so that a signal cannot make us publish on any
// other topic.
var replyTopics = map[string]*regexp.Regexp{
	schema.TopicTargets: regexp.MustCompile(`^targets\.[0-9a-z]{26}$`),
	schema.TopicStats:   regexp.MustCompile(`^stats\.[0-9a-z]{26}$`),
}

// isReply reports whether answers to a question of a topic may go to reply.
func isReply(topic, reply string) bool { return replyTopics[topic].MatchString(reply) }
