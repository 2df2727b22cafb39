package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// DefaultMaxSends bounds how often a file is sent, whole or in part.
	DefaultMaxSends = 30
	// DefaultIdle is how long an import may neither take a byte nor give an answer before it counts
	// as cut.
	DefaultIdle = 10 * time.Second
)

// Import sends a file of jobs until every line has a final answer or may not be sent again, or the
// bounds are reached.
//
//	answer to a line          what follows
//	200, 201, 4xx             final, but for these:
//	429                       sent again; final when the sends are used up
//	408, 425, 5xx, cut, none  unknown: sent again if it has a key, since it may have been accepted
//	not read by a node        sent again
type Import struct {
	Client *Client
	Path   string
	Acks   *journal.AckWriter
	// MaxSends and Idle are DefaultMaxSends and DefaultIdle if 0.
	MaxSends int
	Idle     time.Duration
	Log      *slog.Logger

	lines []lineState // by line − 1
}

// lineState is the state of a line.
type lineState uint8

const (
	answered lineState = 1 << iota // finally
	accepted                       // 200 or 201
	existing                       // 200
	doubtful                       // sent at least once without an answer, or answered 503
	keyed                          // looked at, and has a key
	heard                          // answered in the present send, finally or not
	keyless                        // looked at, and has none: not to be sent again once doubtful
)

// Summary counts the lines of an import.
type Summary struct {
	Lines, Created, Existing, Refused int
	// Unknown lines were sent and may or may not have been accepted; Unsent ones were not accepted.
	Unknown, Unsent int
	Sends           int
	Elapsed         time.Duration
}

// Complete reports whether every line has a final answer.
func (s Summary) Complete() bool { return s.Unknown+s.Unsent == 0 }

// Run sends the file. The error is ErrRefused (the last send accepted no line), that of ctx, or one
// of reading the file or writing the acks. Summary and acks go as far as the import did.
func (im *Import) Run(ctx context.Context) (Summary, error) {
	began := time.Now()
	if im.MaxSends == 0 {
		im.MaxSends = DefaultMaxSends
	}
	if im.Idle == 0 {
		im.Idle = DefaultIdle
	}
	n := 0
	err := eachJob(im.Path, func(line int, b []byte) error {
		if n = line; len(bytes.TrimSpace(b)) == 0 {
			return fmt.Errorf("line %d is blank", line)
		}
		return nil
	})
	if err != nil {
		return Summary{}, fmt.Errorf("count jobs: %w", err)
	}
	im.lines = make([]lineState, n)

	sends, backoff := 0, firstBackoff
	for sends < im.MaxSends && im.left() > 0 {
		sends++
		var cut *cutError
		err = im.send(ctx)
		if ferr := im.Acks.Flush(); ferr != nil && err == nil {
			err = ferr
		}
		if err != nil && !errors.As(err, &cut) {
			break
		}
		if err = im.lookForKeys(); err != nil || im.left() == 0 {
			break
		}
		pause := backoff
		if cut != nil {
			pause = max(pause, cut.wait)
		}
		im.Log.Warn("import not finished, sending again", "send", sends, "lines_left", im.left(), "in", pause, "why", cut)
		if err = wait.For(ctx, pause); err != nil {
			break
		}
		backoff = min(2*backoff, maxBackoff)
	}
	s := im.summary()
	s.Sends, s.Elapsed = sends, time.Since(began)
	if err != nil {
		return s, fmt.Errorf("import %s: %w", im.Path, err)
	}
	return s, nil
}

// left counts the lines that may still be sent.
func (im *Import) left() int {
	n := 0
	for _, l := range im.lines {
		if l.sendable() {
			n++
		}
	}
	return n
}

func (l lineState) sendable() bool {
	return l&answered == 0 && l&(keyless|doubtful) != keyless|doubtful
}

func (im *Import) summary() Summary {
	s := Summary{Lines: len(im.lines)}
	for _, l := range im.lines {
		switch {
		case l&existing != 0:
			s.Existing++
		case l&accepted != 0:
			s.Created++
		case l&answered != 0:
			s.Refused++
		case l&doubtful != 0:
			s.Unknown++
		default:
			s.Unsent++
		}
	}
	return s
}

// cutError is an import that ended before its summary, or left lines to send again.
type cutError struct {
	wait time.Duration // as the server asked for
	why  error
}

func (e *cutError) Error() string { return "answer cut: " + e.why.Error() }
func (e *cutError) Unwrap() error { return e.why }

// send sends what is left to one node and records the answers. It returns nil after a summary line,
// a *cutError without one.
func (im *Import) send(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	for i := range im.lines {
		im.lines[i] &^= heard
	}
	feed, err := newFeed(im.Path, im.lines)
	if err != nil {
		return err
	}
	defer feed.stop()

	var answers atomic.Int64
	stopWatch := watch(cancel, im.Idle, func() int64 { return answers.Load() + feed.taken.Load() })
	defer stopWatch()

	node := im.Client.node()
	resp, err := PostLines(ctx, im.Client.HTTP, node, im.Client.headers(), feed)
	if err != nil {
		return im.cut(parent, feed, 0, fmt.Errorf("%w (%w)", err, causeOf(ctx)))
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if resp.StatusCode != http.StatusOK {
		detail, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // only to be shown
		why := fmt.Errorf("%s answered %d %s", node, resp.StatusCode, firstBytes(detail))
		if final(resp.StatusCode) {
			return fmt.Errorf("%w: %w", ErrRefused, why)
		}
		// as a whole: nothing was accepted, nothing is in doubt
		if resp.StatusCode == http.StatusTooManyRequests {
			return &cutError{wait: min(retryAfter(resp), maxBackoff), why: why}
		}
		return im.cut(parent, feed, min(retryAfter(resp), maxBackoff), why)
	}
	sawSummary, err := im.record(resp.Body, feed, &answers)
	if err != nil {
		return err
	}
	if !sawSummary {
		return im.cut(parent, feed, 0, fmt.Errorf("%s sent no summary (%w)", node, causeOf(ctx)))
	}
	if im.left() > 0 {
		return im.cut(parent, feed, min(retryAfter(resp), maxBackoff), fmt.Errorf("%s left lines without a final answer", node))
	}
	return nil
}

// lookForKeys finds out which doubtful lines have keys.
func (im *Import) lookForKeys() error {
	const look, looked = doubtful, answered | keyed | keyless
	if !slices.ContainsFunc(im.lines, func(l lineState) bool { return l&look != 0 && l&looked == 0 }) {
		return nil
	}
	return eachJob(im.Path, func(line int, b []byte) error {
		if line > len(im.lines) {
			return errors.New("the file has grown")
		}
		l := &im.lines[line-1]
		switch {
		case *l&look == 0 || *l&looked != 0:
		case hasKey(b):
			*l |= keyed
		default:
			*l |= keyless
		}
		return nil
	})
}

var (
	errIdle       = errors.New("idle for too long")
	errConnection = errors.New("connection ended")
)

func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errConnection
}

// watch calls cancel when progress does not change for a whole idle span. The function it returns
// ends it and waits for that.
func watch(cancel context.CancelCauseFunc, idle time.Duration, progress func() int64) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(idle)
		defer tick.Stop()
		for was := int64(-1); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
				if is := progress(); is != was {
					was = is
					continue
				}
				cancel(errIdle)
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// cut marks the lines that were sent and not answered as doubtful, records that no answer came, and
// returns a *cutError.
func (im *Import) cut(parent context.Context, feed *feed, wait time.Duration, why error) error {
	now := time.Now()
	for _, line := range feed.stop() {
		l := &im.lines[line-1]
		if *l&heard == 0 {
			*l |= doubtful
			if err := im.Acks.Write(int(line), "", 0, now); err != nil {
				return err
			}
		}
	}
	if err := parent.Err(); err != nil {
		return err
	}
	return &cutError{wait: wait, why: why}
}

// answer is one line of the answer to an import.
type answer struct {
	Line    int             `json:"line"`
	ID      string          `json:"id"`
	Status  int             `json:"status"`
	Error   json.RawMessage `json:"error"`
	Summary json.RawMessage `json:"summary"`
}

// record reads answer lines until they end. An answer that ends in the middle is not an error here.
func (im *Import) record(body io.Reader, feed *feed, answers *atomic.Int64) (sawSummary bool, err error) {
	sc := bufio.NewScanner(body)
	sc.Buffer(make([]byte, 64<<10), journal.MaxLine)
	last, flushed, refusals := time.Now(), time.Now(), 0
	for sc.Scan() {
		now := time.Now()
		var a answer
		if json.Unmarshal(sc.Bytes(), &a) != nil {
			return false, nil // half a line: cut
		}
		if a.Summary != nil {
			return true, nil
		}
		if a.Line == 0 && a.Error != nil { // the node ends the import, as it is told to stop
			im.Log.Warn("the node ended the import", "err", firstBytes(a.Error))
			return false, nil
		}
		line, ok := feed.line(a.Line)
		if !ok {
			return false, fmt.Errorf("%w: an answer to line %d, which was not sent", ErrRefused, a.Line)
		}
		if err := im.Acks.Write(line, a.ID, a.Status, now); err != nil {
			return false, err
		}
		im.lines[line-1] |= heard | stateOf(a.Status)
		if a.Status >= 400 {
			if refusals++; refusals <= unreadableLogged {
				im.Log.Warn("line refused", "line", line, "status", a.Status, "err", firstBytes(a.Error))
			}
		}
		if n := answers.Add(1); now.Sub(last) >= progressEvery {
			last = now
			im.Log.Info("importing", "answered", n, "of", len(im.lines))
		}
		if now.Sub(flushed) >= 100*time.Millisecond {
			flushed = now
			if err := im.Acks.Flush(); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// stateOf says what an answer makes of its line.
func stateOf(status int) lineState {
	switch {
	case status == http.StatusCreated:
		return answered | accepted
	case status == http.StatusOK:
		return answered | accepted | existing
	case status == http.StatusTooManyRequests:
		return 0 // not accepted: to be sent again
	case final(status):
		return answered
	default:
		return doubtful
	}
}

// eachJob calls visit for each line of a file, numbered from 1.
func eachJob(path string, visit func(line int, b []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open jobs: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 1<<20), journal.MaxLine)
	for line := 1; sc.Scan(); line++ {
		if err := visit(line, sc.Bytes()); err != nil {
			return fmt.Errorf("read jobs: %w", err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	return nil
}
