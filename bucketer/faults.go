package bucketer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fault is one thing that is wrong with a request.
type Fault struct {
	// Location is where, from the part of the request on: "body.http.url",
	// "header.Idempotency-Key".
	Location string `json:"location,omitempty"`
	// Message is what is wrong, in words that fit behind the location.
	Message string `json:"message"`
	// Value is what was sent, if it is short and cannot be a secret.
	Value any `json:"value,omitempty"`
}

// Faults is everything that is wrong with a request that could be read: it is invalid (422).
type Faults []Fault

// Error returns the faults in one line.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s", fault.Location, fault.Message)
	}
	return b.String()
}

// Shorten returns s cut to at most n bytes, at the start of a character.
func Shorten(s []byte, n int) []byte {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return append(append(make([]byte, 0, n+3), s[:n]...), "…"...)
}
