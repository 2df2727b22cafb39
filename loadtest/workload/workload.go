package workload

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

// MaxPayload is the limit of a payload (the API's), in bytes.
const MaxPayload = 64 << 10

// Spec describes jobs.
type Spec struct {
	// N is the number of jobs, of which Immediate, at random lines, state no time.
	N, Immediate int
	// From is the first due instant. The others lie in [From, From+Spread), in whole milliseconds,
	// uniformly; Spread 0 = all at From.
	From   time.Time
	Spread time.Duration
	// PayloadBytes is the size of each payload; 0 = as small as can be.
	PayloadBytes int
	Seed         uint64
	// Source names the stream; with Seed it makes keys unique. Letters, digits, '.', '_', '-'.
	Source string
	// Target is the base URL of the sink.
	Target string
	// Keyed gives each job the idempotency key "<source>-<line>".
	Keyed bool
	// Kinds rotate over the jobs; none = only the address is stated.
	Kinds []Kind
}

// A Kind is the fields of a job besides address and time.
type Kind struct {
	// Manner is how the sink answers, as segments of an address (package sink):
	// "work-500ms/fail-1".
	Manner string
	// Task is the task that they name instead of an address.
	Task string
	// The rest is in the words of the API; empty = not stated.
	Guarantee string
	Timeout   string
	Retry     *Retry

	Durability string
	// Region is the one region that may run it.
	Region string
}

// Retry is how a job is retried, in the words of the API.
type Retry struct {
	MaxAttempts int    `json:"max_attempts,omitempty"`
	Initial     string `json:"initial,omitempty"`
	Max         string `json:"max,omitempty"`
}

// Of returns the kind of a line.
func (s Spec) Of(line int) Kind {
	if len(s.Kinds) == 0 {
		return Kind{}
	}
	return s.Kinds[(line-1)%len(s.Kinds)]
}

// appendTo adds what k states, as fields of a job.
func (k Kind) appendTo(b []byte) []byte {
	if k.Task != "" {
		b = fmt.Appendf(b, `"task":%q,`, k.Task)
	}
	if k.Guarantee != "" {
		b = fmt.Appendf(b, `"guarantee":%q,`, k.Guarantee)
	}
	if k.Timeout != "" {
		b = fmt.Appendf(b, `"timeout":%q,`, k.Timeout)
	}
	if k.Durability != "" {
		b = fmt.Appendf(b, `"durability":%q,`, k.Durability)
	}
	if k.Region != "" {
		b = fmt.Appendf(b, `"region":{"name":%q,"require":true},`, k.Region)
	}
	if k.Retry != nil {
		text, err := json.Marshal(k.Retry)
		if err != nil { // numbers and strings always marshal
			panic(err)
		}
		b = fmt.Appendf(b, `"retry":%s,`, text)
	}
	return b
}

var sourceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// Validate reports every fault of s.
func (s Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.N < 1 {
		bad("n is %d, want at least 1", s.N)
	}
	if s.Immediate < 0 || s.Immediate > s.N {
		bad("immediate is %d, want 0 to n = %d", s.Immediate, s.N)
	}
	if s.From.IsZero() && s.Immediate < s.N {
		bad("from is not given")
	}
	if s.Spread < 0 || s.Spread%time.Millisecond != 0 {
		bad("spread is %s, want whole milliseconds, not negative", s.Spread)
	}
	addressed(s.Source, s.Target, bad)
	if least := len(s.payload(nil, s.N, nil)); s.PayloadBytes != 0 && (s.PayloadBytes < least+len(padHead) || s.PayloadBytes > MaxPayload) {
		bad("payload is %d bytes, want 0 (the least) or %d to %d", s.PayloadBytes, least+len(padHead), MaxPayload)
	}
	for _, k := range s.Kinds {
		if k.Task != "" && (!sourceName.MatchString(k.Task) || k.Manner != "") {
			bad("task is %q and manner %q, want %s, and no manner beside it: a task says how it is called", k.Task, k.Manner, sourceName)
		}
		if k.Manner != "" && !mannerText.MatchString(k.Manner) {
			bad("manner is %q, want segments of a path: %s", k.Manner, mannerText)
		}
	}
	return errors.Join(errs...)
}

// addressed reports what is wrong with the address that jobs of a source call.
func addressed(source, target string, bad func(format string, args ...any)) {
	if !sourceName.MatchString(source) {
		bad("source is %q, want %s", source, sourceName)
	}
	if u, err := url.Parse(target); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		bad("target is %q, want an http URL", target)
	}
}

var mannerText = regexp.MustCompile(`^[a-z0-9.-]+(/[a-z0-9.-]+)*$`)

const (
	padHead  = `,"pad":""`
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// Write writes the jobs, in order of lines, not of time.
func (s Spec) Write(w io.Writer) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("make jobs: %w", err)
	}
	target, err := json.Marshal(s.Target)
	if err != nil {
		return fmt.Errorf("make jobs: %w", err)
	}
	target = target[:len(target)-1] // the address goes on

	rng := rand.New(rand.NewPCG(s.Seed, 0))
	from := s.From.UTC().Truncate(time.Millisecond)
	bw := bufio.NewWriterSize(w, 1<<20)
	immediate := s.Immediate
	var b []byte
	for line := 1; line <= s.N; line++ {
		b = append(b[:0], '{')
		if s.Keyed {
			b = fmt.Appendf(b, `"key":"%s-%d",`, s.Source, line)
		}
		kind := s.Of(line)
		if kind.Task == "" {
			b = append(b, `"http":{"url":`...)
			b = append(b, target...)
			if kind.Manner != "" {
				b = append(b, '/')
				b = append(b, kind.Manner...)
			}
			b = fmt.Appendf(b, `/%s/%d"},`, s.Source, line)
		}
		b = kind.appendTo(b)
		// Each line left is immediate with the same chance, so that exactly s.Immediate of them
		// are.
		if rng.IntN(s.N-line+1) < immediate {
			immediate--
		} else {
			due := from
			if ms := s.Spread.Milliseconds(); ms > 0 {
				due = due.Add(time.Duration(rng.Int64N(ms)) * time.Millisecond)
			}
			b = append(b, `"schedule":{"at":"`...)
			b = due.AppendFormat(b, "2006-01-02T15:04:05.000Z")
			b = append(b, `"},`...)
		}
		b = append(b, `"payload":`...)
		b = s.payload(b, line, rng)
		b = append(b, '}', '\n')
		if _, err := bw.Write(b); err != nil {
			return fmt.Errorf("write jobs: %w", err)
		}
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("write jobs: %w", err)
	}
	return nil
}

// payload adds the payload of a line, padded at random if rng is given.
func (s Spec) payload(b []byte, line int, rng *rand.Rand) []byte {
	begin := len(b)
	b = append(b, `{"ref":"`...)
	b = append(b, s.Source...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(line), 10)
	b = append(b, '"')
	if pad := s.PayloadBytes - (len(b) - begin) - len(padHead) - 1; rng != nil && pad >= 0 {
		b = append(b, padHead[:len(padHead)-1]...)
		for i := 0; i < pad; {
			for bits, k := rng.Uint64(), 0; k < 10 && i < pad; k, i = k+1, i+1 {
				b = append(b, alphabet[bits&63])
				bits >>= 6
			}
		}
		b = append(b, '"')
	}
	return append(b, '}')
}
