package journal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

type ackHead struct {
	Source string `json:"source"`
}

type ackLine struct {
	Line   int    `json:"line"`
	ID     string `json:"id,omitempty"`
	Status int    `json:"status"`
	At     int64  `json:"at"`
}

// AckWriter writes answers. It is not safe for concurrent use.
type AckWriter struct {
	w *bufio.Writer
	b []byte
}

// NewAckWriter returns a writer of the answers to one source, whose head it has put into its
// buffer.
func NewAckWriter(w io.Writer, source string) (*AckWriter, error) {
	a := &AckWriter{w: bufio.NewWriterSize(w, 256<<10)}
	head, err := json.Marshal(ackHead{source})
	if err != nil {
		return nil, fmt.Errorf("write acks: %w", err)
	}
	if _, err := a.w.Write(append(head, '\n')); err != nil {
		return nil, fmt.Errorf("write acks: %w", err)
	}
	return a, nil
}

// Write adds one answer; status 0 says that the line was sent and no answer came.
func (a *AckWriter) Write(line int, id string, status int, at time.Time) error {
	b := append(a.b[:0], `{"line":`...)
	b = strconv.AppendInt(b, int64(line), 10)
	if id != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, id)
	}
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, at.UnixNano(), 10)
	a.b = append(b, '}', '\n')
	if _, err := a.w.Write(a.b); err != nil {
		return fmt.Errorf("write acks: %w", err)
	}
	return nil
}

// Flush writes the buffer to the underlying writer.
func (a *AckWriter) Flush() error {
	if err := a.w.Flush(); err != nil {
		return fmt.Errorf("write acks: %w", err)
	}
	return nil
}

// ReadAcks reads the output of an AckWriter, in order.
func ReadAcks(r io.Reader) ([]check.Ack, error) {
	var head ackHead
	var acks []check.Ack
	err := eachLine(r, func(n int, b []byte) error {
		if n == 1 {
			if err := json.Unmarshal(b, &head); err != nil {
				return err
			}
			if head.Source == "" {
				return fmt.Errorf("the head names no source")
			}
			return nil
		}
		var l ackLine
		if err := json.Unmarshal(b, &l); err != nil {
			return err
		}
		acks = append(acks, check.Ack{
			Ref: check.Ref{Source: head.Source, Line: l.Line}, ID: l.ID, Status: l.Status, At: time.Unix(0, l.At).UTC(),
		})
		return nil
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("read acks: %w", err)
	}
	return acks, nil
}

// appendString adds s as a JSON string. Plain ASCII, the usual case, is copied.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			q, err := json.Marshal(s)
			if err != nil { // a string always marshals
				panic(err)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
