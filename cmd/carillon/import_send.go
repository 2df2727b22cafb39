package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
)

const (
	// fruitlessTries is how often in a row a block is sent without one line answered, on all nodes together.
	fruitlessTries = 8
	// maxPause is the longest wait between two tries, whatever Retry-After says.
	maxPause = 10 * time.Second
	// answerWithin is how long a node may be silent. The server gives a chunk of lines a minute.
	answerWithin = 75 * time.Second
	// noteEvery is how often answers are written into the state while a block is under way.
	noteEvery = time.Second
	// lastAnswers is how long answers of what was sent are awaited when the import is told to stop.
	lastAnswers = 15 * time.Second
)

// sender sends blocks and takes their answers. Its methods may be called from any goroutine.
type sender struct {
	file     string
	nodes    []*httpapi.Client // one for each node, which tries nothing twice by itself
	options  httpapi.ImportOptions
	resend   bool // also what may stand already
	state    *importState
	failures *failures
	progress *progress
	pause    func(ctx context.Context, d time.Duration) // between tries
	patience time.Duration                              // how long a node may be silent
	left     atomic.Int64                               // lines that were dealt and have no fate

	stopping context.Context         // ends when nothing more is to be sent
	abort    context.CancelCauseFunc // of stopping
	sending  context.Context         // ends when no answer is awaited any more
}

// send sends a block until every line has its fate or there is no point in going on. worker spreads the blocks over nodes.
func (s *sender) send(worker int, b *block) {
	fruitless := 0
	for node := worker; s.stopping.Err() == nil; node++ {
		before := open(b)
		err := s.try(s.nodes[node%len(s.nodes)], b)
		left := open(b)
		switch {
		case isFinal(err):
			s.abort(err)
		case left == 0:
			return
		case left < before:
			fruitless = 0
		default:
			fruitless++
		}
		if fruitless >= fruitlessTries {
			s.giveUp(b, err)
			break
		}
		if fruitless%len(s.nodes) == 0 { // else another node may do at once what this one cannot
			s.pause(s.stopping, pauseAfter(err, fruitless))
		}
	}
	s.left.Add(int64(open(b)))
}

// open counts the lines of a block that are to be sent.
func open(b *block) (n int) {
	for i := range b.lines {
		if b.lines[i].fate == pending {
			n++
		}
	}
	return n
}

// isFinal reports whether an error says that no try will do better: the key is wrong, there is no such API.
func isFinal(err error) bool {
	var p *httpapi.Problem
	var state *stateError
	if errors.As(err, &state) {
		return true
	}
	return refused(err) && errors.As(err, &p) && p.Status/100 == 4 && p.Status != http.StatusTooManyRequests && p.Status != http.StatusRequestTimeout
}

// refused reports whether a node would not have the import at all, and so wrote nothing of it.
func refused(err error) bool {
	var p *httpapi.Problem
	return !errors.Is(err, httpapi.ErrImportCut) && errors.As(err, &p) && (p.Status/100 == 4 || p.Kind() == "not-ready")
}

// stateError: what became of lines cannot be kept, so nothing more may be sent.
type stateError struct{ error }

func (e *stateError) Unwrap() error { return e.error }

// pauseAfter returns how long to wait: what the server asks for, else 0.2 s doubling, half of it random.
func pauseAfter(err error, fruitless int) time.Duration {
	var p *httpapi.Problem
	if errors.As(err, &p) && p.RetryAfter > 0 {
		return min(p.RetryAfter, maxPause)
	}
	d := 200 * time.Millisecond << min(fruitless, 10)
	return min(d/2+rand.N(d/2), maxPause) // #nosec G404 -- only spreads load
}

// giveUp ends a block that gets no further: lines that were refused each for itself have failed, others end the import.
func (s *sender) giveUp(b *block, err error) {
	left := 0
	var noted error
	for i := range b.lines {
		l := &b.lines[i]
		if l.fate != pending {
			continue
		}
		if p := l.refusal; p != nil && (p.Kind() == "minute-full" || p.Status == http.StatusInternalServerError) {
			noted = errors.Join(noted, s.fail(l, p))
			continue
		}
		left++
	}
	if noted = errors.Join(noted, s.note(b)); noted != nil {
		s.abort(noted)
		return
	}
	if left > 0 {
		if err == nil {
			err = errors.New("the API cannot promise them now")
		}
		s.abort(fmt.Errorf("%d lines were not taken in %d tries: %w", left, fruitlessTries, err))
	}
}

// try sends what is open of a block to a node once.
func (s *sender) try(client *httpapi.Client, b *block) error {
	var lines []*item
	for i := range b.lines {
		if l := &b.lines[i]; l.fate == pending {
			lines = append(lines, l)
		}
	}
	isPending := func(l *item) bool { return l.fate == pending }
	if err := s.state.note(record{Sent: spans(b.lines, isPending)}); err != nil {
		return &stateError{err}
	}
	ctx, cancel := context.WithCancelCause(s.sending)
	defer cancel(nil)
	silence := time.AfterFunc(s.patience, func() { cancel(fmt.Errorf("no answer for %v", s.patience)) })
	defer silence.Stop()
	body := &lineReader{lines: lines, stop: s.stopping, moved: func() { silence.Reset(s.patience) }}
	heard := make([]bool, len(lines))
	noted := time.Now()
	_, err := client.Import(ctx, body, s.options, func(r httpapi.ImportResult) error {
		silence.Reset(s.patience)
		i := r.Line - 1
		if i < 0 || i >= int64(len(lines)) || heard[i] {
			return fmt.Errorf("the answer names line %d, which was not asked", r.Line)
		}
		heard[i] = true
		if err := s.judge(lines[i], r); err != nil {
			return &stateError{err}
		}
		if now := time.Now(); now.Sub(noted) > noteEvery {
			noted = now
			if err := s.note(b); err != nil {
				return &stateError{err}
			}
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = fmt.Errorf("%w: %w", httpapi.ErrImportCut, cause)
	}
	taken := body.withdraw()
	var unsent lineSet
	for i, l := range lines {
		if i < taken && !heard[i] && !refused(err) {
			s.doubt(l)
		}
		if l.fate == pending && !l.doubted {
			unsent.add(span{l.number, l.number})
		}
	}
	if serr := errors.Join(s.state.note(record{Unsent: unsent}), s.note(b)); serr != nil {
		return &stateError{serr}
	}
	return err
}

// judge gives a line the fate that its answer says.
func (s *sender) judge(l *item, r httpapi.ImportResult) error {
	if l.refusal = r.Error; l.refusal == nil {
		l.refusal = &httpapi.Problem{Title: http.StatusText(r.Status), Status: r.Status}
	}
	switch {
	case r.Status == http.StatusCreated:
		l.fate, l.created = answered, true
		s.progress.count(tally{Created: 1})
	case r.Status == http.StatusOK:
		l.fate = answered
		s.progress.count(tally{Existing: 1})
	case r.Status == http.StatusTooManyRequests, l.refusal.Kind() == "not-ready": // nothing was written
	case r.Status >= 500:
		s.doubt(l)
	default:
		return s.fail(l, l.refusal)
	}
	return nil
}

// doubt takes note that a line may stand or not: with a key it is sent again, without one it is unknown.
func (s *sender) doubt(l *item) {
	l.doubted = true
	if !s.resend && !s.options.ValidateOnly && !l.keyed() {
		l.fate = unknown
		s.progress.lose()
	}
}

// fail keeps a line that failed.
func (s *sender) fail(l *item, p *httpapi.Problem) error {
	l.fate, l.failed = answered, true
	s.progress.count(tally{Failed: 1})
	return s.failures.add(s.file, l.number, l.text, p)
}

// note writes the answers into the state that are not there yet. The lines that failed are in their file first: cut between
// the two, they are sent and kept again.
func (s *sender) note(b *block) error {
	if s.state == nil {
		return nil
	}
	if err := s.failures.flush(); err != nil {
		return err
	}
	var rec record
	rec.Answered = spans(b.lines, func(l *item) bool { return l.fate == answered && !l.noted })
	for i := range b.lines {
		l := &b.lines[i]
		if l.fate != answered || l.noted {
			continue
		}
		l.noted = true
		switch {
		case l.failed:
			rec.Failed++
		case l.created:
			rec.Created++
		default:
			rec.Existing++
		}
	}
	return s.state.note(rec)
}

// lineReader is the body of one try: lines, each with its end. It ends between two lines when it is told to stop.
type lineReader struct {
	lines []*item
	stop  context.Context
	moved func()

	mu        sync.Mutex // guards what follows: a transport may read on after its request has failed
	taken     int        // lines of which at least a byte was taken
	offset    int        // in the last of them; its length + 1 = after its end
	withdrawn bool
}

func (r *lineReader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.withdrawn {
		return 0, errors.New("the try is over")
	}
	defer r.moved()
	for n < len(p) {
		if r.taken == 0 || r.offset > len(r.lines[r.taken-1].text) {
			if r.taken == len(r.lines) || r.stop.Err() != nil {
				if n == 0 {
					err = io.EOF
				}
				return n, err
			}
			r.taken, r.offset = r.taken+1, 0
		}
		text := r.lines[r.taken-1].text
		done := copy(p[n:], text[r.offset:])
		n, r.offset = n+done, r.offset+done
		if r.offset == len(text) && n < len(p) {
			p[n] = '\n'
			n, r.offset = n+1, r.offset+1
		}
	}
	return n, nil
}

// withdraw ends the reading and returns how many lines may have been sent.
func (r *lineReader) withdraw() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = true
	return r.taken
}
