package nats

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Respond answers every NATS request on subject with an empty message, at once or after a delay,
// until ctx ends. It calls listening when it listens. url is nats://host:port. It speaks the few
// verbs that it needs itself, so that the worker uses little CPU.
func Respond(ctx context.Context, url, subject string, delay time.Duration, listening func()) (err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the read
	defer func() {
		if stop() {
			err = errors.Join(err, conn.Close())
		}
		if ctx.Err() != nil {
			err = nil
		}
	}()
	if _, err := io.WriteString(conn, greeting(subject+" carillon-load 1", true)); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	in := bufio.NewReaderSize(conn, 256<<10)
	if delay <= 0 {
		return answerAll(in, conn, listening, nil)
	}
	l := &later{delay: delay, to: conn}
	writing, stopWriting := context.WithCancel(ctx)
	written := make(chan error, 1)
	go func() {
		err := l.run(writing)
		_ = conn.Close() // ends the read
		written <- err
	}()
	err = answerAll(in, l, listening, l.add)
	stopWriting()
	return errors.Join(err, <-written)
}

// later writes answers a delay after their requests. Writes that are no answers go through at once.
type later struct {
	delay time.Duration
	to    io.Writer // written by one at a time

	mu    sync.Mutex // guards what follows, and writing
	queue []answerDue
}

type answerDue struct {
	at    time.Time
	reply string
}

// laterEvery is how often later looks for answers that are due.
const laterEvery = 5 * time.Millisecond

// Write implements io.Writer.
func (l *later) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

func (l *later) add(reply string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, answerDue{time.Now().Add(l.delay), reply})
}

// run writes due answers until ctx ends.
func (l *later) run(ctx context.Context) error {
	tick := time.NewTicker(laterEvery)
	defer tick.Stop()
	var out []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			out = l.due(out[:0], now)
			if len(out) == 0 {
				continue
			}
			if _, err := l.Write(out); err != nil {
				return fmt.Errorf("answer: %w", err)
			}
		}
	}
}

// due takes due answers out of the queue, as text.
func (l *later) due(out []byte, now time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.queue) && !l.queue[n].at.After(now) {
		out = append(out, "PUB "+l.queue[n].reply+" 0\r\n\r\n"...)
		n++
	}
	l.queue = l.queue[n:]
	return out
}

// answerAll reads messages and answers requests, or passes their reply subjects to held if that is
// not nil. It writes answers when there is nothing left to read.
func answerAll(r *bufio.Reader, w io.Writer, listening func(), held func(reply string)) error {
	var out []byte
	for {
		if len(out) > 0 && (r.Buffered() == 0 || len(out) > 64<<10) {
			if _, err := w.Write(out); err != nil {
				return fmt.Errorf("answer: %w", err)
			}
			out = out[:0]
		}
		line, err := r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read from nats: %w", err)
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "PING":
			out = append(out, "PONG\r\n"...)
		case fields[0] == "PONG":
			listening()
			listening = func() {}
		case fields[0] == "-ERR":
			return fmt.Errorf("nats: %s", strings.TrimSpace(line))
		case fields[0] == "MSG" || fields[0] == "HMSG":
			reply, size, err := message(fields)
			if err != nil {
				return err
			}
			if _, err := r.Discard(size + len("\r\n")); err != nil {
				return fmt.Errorf("read from nats: %w", err)
			}
			switch {
			case reply == "":
			case held != nil:
				held(reply)
			default:
				out = append(out, "PUB "+reply+" 0\r\n\r\n"...)
			}
		}
	}
}
