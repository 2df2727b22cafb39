package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
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
	// answersWithin bounds a question, from its begin on.
	answersWithin = time.Second
	// silentWithin bounds the wait for nodes that did not answer the time before.
	silentWithin = 100 * time.Millisecond
)

// A node asks others by a signal to all of them, which names a topic for the answers to this question.

// question is what the signal of every question holds, beside what is asked.
type question struct {
	Reply string `json:"reply"` // the topic of the answers
	// From is the node that asks, if it answers itself without a signal.
	From string `json:"from,omitempty"`
}

// answer is what one node answers.
type answer interface{ from() string }

// survey is a question to nodes.
type survey struct {
	queue   queue.Signals
	log     *slog.Logger
	topic   string
	self    string             // the node that asks and that is not to answer; "": it answers as others do
	members []string           // who should answer
	silent  []string           // of those, who did not answer the time before
	ask     func(question) any // the body of the signal
}

// askNodes asks, and calls take with the answer of each node: of members, and of others that heard of
// it. It returns when all members but self have answered, or after answersWithin, with those that have
// not. So a node that does not answer is missing, and takes nothing from the answers of others.
func askNodes[A answer](ctx context.Context, s survey, take func(A)) (missing []string, err error) {
	missing = slices.DeleteFunc(slices.Clone(s.members), func(name string) bool { return name == s.self })
	if len(missing) == 0 {
		return nil, nil
	}
	soon, late := time.NewTimer(silentWithin), time.NewTimer(answersWithin)
	defer soon.Stop()
	defer late.Stop()
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
		return missing, fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
	}
	defer cancel()
	defer close(stop) // runs first: a handler of an answer must not wait for us
	body, err := json.Marshal(s.ask(question{reply, s.self}))
	if err != nil {
		return missing, fmt.Errorf("encode the question: %w", err)
	}
	s.queue.Signal(s.topic, body)
	answered := make(map[string]bool)
	patient := true // those who are usually silent may still answer
	for len(missing) > 0 && (patient || slices.ContainsFunc(missing, func(name string) bool { return !slices.Contains(s.silent, name) })) {
		select {
		case a := <-heard:
			if name := a.from(); name != s.self && !answered[name] {
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

// answerNodes answers the questions of a topic until cancel is called. self is the name of this node.
func answerNodes[Q, A any](q queue.Signals, log *slog.Logger, topic, self string, say func(Q) A) (cancel func(), err error) {
	return q.SubscribeSignal(topic, func(body []byte) {
		var to question
		var asked Q
		err := errors.Join(json.Unmarshal(body, &to), json.Unmarshal(body, &asked))
		if err != nil || !isReply(topic, to.Reply) {
			log.Warn("a question of a node cannot be read", "topic", topic, "err", err)
			return
		}
		if to.From == self {
			return
		}
		text, err := json.Marshal(say(asked))
		if err != nil {
			log.Error("the answer to a node cannot be encoded", "topic", topic, "err", err)
			return
		}
		q.Signal(to.Reply, text)
	})
}

// replyWord is the form of the last word of the topics of answers.
var replyWord = regexp.MustCompile(`^[0-9a-z]{26}$`)

// isReply reports whether answers to a question of a topic may go to reply. So a signal cannot make us
// publish on any other topic.
func isReply(topic, reply string) bool {
	word, ok := strings.CutPrefix(reply, topic+".")
	return ok && replyWord.MatchString(word)
}
