package client

import (
	"fmt"
	"strings"
	"time"
)

// Fault is one thing that is wrong with a request.
type Fault struct {
	// Location is where, from the part of the request on: "body.steps[2].payload", "path.name".
	Location string `json:"location,omitempty"`
	// Message is what is wrong, in words that fit behind the location.
	Message string `json:"message"`
	// Value is what was sent, if it is short and cannot be a secret.
	Value any `json:"value,omitempty"`
}

// Faults is everything that is wrong with a request. As an error by itself it comes from a builder:
// nothing was sent.
type Faults []Fault

// Error returns the faults in one line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = strings.TrimPrefix(f[i].Location+" "+f[i].Message, " ")
	}
	return strings.Join(lines, "; ")
}

// Error is an answer of the API that is an error.
type Error struct {
	Status int // the HTTP status
	// Kind is what a program decides by: "invalid", "not-found", "key-reused", "unknown" and so on.
	// It is "" if the answer has none, such as one of a proxy.
	Kind   string
	Title  string // the same for every error of a kind
	Detail string // what is particular to this one; may be ""
	Faults Faults // every fault of the request that was found
	// RetryAfter is when to try again; 0: the answer does not say.
	RetryAfter time.Duration
}

// Error returns the error in one line.
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if len(e.Faults) > 0 {
		text += ": " + e.Faults.Error()
	}
	return text
}

// Unwrap returns the faults, nil if there are none.
func (e *Error) Unwrap() error {
	if len(e.Faults) == 0 {
		return nil
	}
	return e.Faults
}
