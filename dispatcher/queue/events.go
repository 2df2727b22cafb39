package queue

import "errors"

// PublishedEvent is an event that a client published on NATS (Names.Event). Nothing of it has been
// checked.
type PublishedEvent struct {
	Tenant, Name string // "" where the subject does not say them
	Body         []byte
	// Key is the same whenever the event is handed out: the client's message id (Nats-Msg-Id), or else
	// its place in the stream and when it was stored there.
	Key string
}

// ErrRefused: an event is not taken in, now or later.
var ErrRefused = errors.New("the event is refused")
