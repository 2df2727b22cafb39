package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Run is one attempt of a run, as its handler has it. Its methods may be called from any goroutine
// while the handler runs.
type Run struct {
	ID      string    // of the run: the same at every attempt, so the idempotency key
	Tenant  string    // whose it is: any tenant may name the subject of a worker in a task
	Job     string    // of its job
	Attempt int       // from 1
	Fence   int64     // grows: of two executions the higher is the later
	Due     time.Time // when it was due
	Nominal time.Time // of a recurring job: the instant that its schedule names; else zero
	Subject string    // on which it came
	Payload []byte    // JSON, or empty
	Trace   string    // W3C traceparent

	timeout   time.Duration // 0: not said
	deadline  time.Time     // when the executor gives up; zero: not said
	maxOutput int           // 0: not said
	talk      *talk
}

// Bind decodes the payload into v.
func (r Run) Bind(v any) error {
	if err := json.Unmarshal(r.Payload, v); err != nil {
		return Final(fmt.Errorf("decode payload: %w", err)) // it will be no other at the next attempt
	}
	return nil
}

// Log keeps lines, made as fmt.Sprintf does, in the log of the run, where they can be read at once.
// The executor bounds how many.
func (r Run) Log(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.talk.say(wordLog, []byte(text[:min(len(text), maxLog)]))
}

// Progress tells how far the handler has come; a total of 0 means that it does not say of how much.
// Of what is told in quick succession the last counts.
func (r Run) Progress(done, total int64) { r.talk.progress(done, total) }

// newRun reads a request. The error says that it is not one of Carillon's.
func newRun(m *nats.Msg) (Run, error) {
	h := m.Header
	r := Run{ID: h.Get("Carillon-Run-Id"), Tenant: h.Get("Carillon-Tenant"), Job: h.Get("Carillon-Job-Id"), Subject: m.Subject, Payload: m.Data, Trace: h.Get("traceparent")}
	var errs [3]error
	r.Attempt, errs[0] = strconv.Atoi(h.Get("Carillon-Attempt"))
	r.Fence, errs[1] = strconv.ParseInt(h.Get("Carillon-Fence"), 10, 64)
	r.Due, errs[2] = time.Parse(time.RFC3339Nano, h.Get("Carillon-Due-At"))
	if err := errors.Join(errs[:]...); err != nil || r.ID == "" || m.Reply == "" {
		return Run{}, fmt.Errorf("not a run of Carillon: %w", errors.Join(errors.New("a header or the inbox is missing"), err))
	}
	// Additions, without which a run is one all the same.
	if ms, err := strconv.ParseInt(h.Get("Carillon-Timeout-Ms"), 10, 64); err == nil && ms > 0 && ms < int64(maxTimeout/time.Millisecond) {
		r.timeout = time.Duration(ms) * time.Millisecond
	}
	if at, err := time.Parse(time.RFC3339Nano, h.Get("Carillon-Deadline")); err == nil {
		r.deadline = at
	}
	if at, err := time.Parse(time.RFC3339Nano, h.Get("Carillon-Nominal-At")); err == nil {
		r.Nominal = at
	}
	if n, err := strconv.Atoi(h.Get("Carillon-Max-Output")); err == nil && n > 0 {
		r.maxOutput = n
	}
	return r, nil
}

// late reports whether the executor has given the attempt up by now, whatever the clocks say: NATS
// held the request up meanwhile.
func (r Run) late(now time.Time) bool { return !r.deadline.IsZero() && now.Sub(r.deadline) > maxSkew }

// verdict is an error that says what is to follow.
type verdict struct {
	error
	final bool
	after time.Duration
}

func (v *verdict) Unwrap() error { return v.error }

// Final marks an error as one after which no attempt should follow. Nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &verdict{error: err, final: true}
}

// RetryAfter marks an error as one after which the next attempt should wait for d at least (at most
// 24 h). Nil stays nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &verdict{error: err, after: d}
}

// result makes the last word of an attempt of what its handler returned.
func (r Run) result(v any, err error, maxPayload int) *nats.Msg {
	m := &nats.Msg{Header: nats.Header{wordHeader: {wordResult}}}
	if err == nil {
		m.Data, err = encode(v)
	}
	if err != nil {
		m.Header.Set("Carillon-Error", line(err.Error()))
		var v *verdict
		if errors.As(err, &v) && v.final {
			m.Header.Set("Carillon-Error-Final", "true")
		}
		if errors.As(err, &v) && v.after > 0 {
			m.Header.Set("Carillon-Retry-After", strconv.FormatFloat(v.after.Seconds(), 'f', -1, 64))
		}
	}
	most := maxPayload - headerRoom
	if r.maxOutput > 0 {
		most = min(most, r.maxOutput)
	}
	if len(m.Data) > most {
		m.Data = m.Data[:max(most, 0)]
		m.Header.Set("Carillon-Output-Cut", "true")
	}
	return m
}

// encode makes a result of what a handler returned: bytes and text as they are, anything else as
// JSON, nil as nothing.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	case string:
		return []byte(v), nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, Final(fmt.Errorf("encode result: %w", err)) // the work is done: to do it again would not help
	}
	return text, nil
}

// line makes one line of a text, short enough for a header.
func line(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxError {
		text = text[:maxError]
	}
	if text = strings.ToValidUTF8(text, ""); text == "" {
		return "failed"
	}
	return text
}
