package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Respond answers every NATS request on subject with nothing, at once, until ctx ends; listening is called when it listens. url is
// nats://host:port. It speaks the few words of the protocol that this needs, so that the worker costs little beside what
// is measured.
func Respond(ctx context.Context, url, subject string, listening func()) (err error) {
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
	hello := `CONNECT {"verbose":false,"pedantic":false,"headers":true,"name":"carillon-load","lang":"go","protocol":1}` +
		"\r\nSUB " + subject + " carillon-load 1\r\nPING\r\n"
	if _, err := io.WriteString(conn, hello); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return answerAll(bufio.NewReaderSize(conn, 256<<10), conn, listening)
}

// answerAll reads what the server says and answers requests. Answers are written when there is nothing left to read.
func answerAll(r *bufio.Reader, w io.Writer, listening func()) error {
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
			reply, size, err := request(fields)
			if err != nil {
				return err
			}
			if _, err := r.Discard(size + len("\r\n")); err != nil {
				return fmt.Errorf("read from nats: %w", err)
			}
			if reply != "" {
				out = append(out, "PUB "+reply+" 0\r\n\r\n"...)
			}
		}
	}
}

// request reads "MSG subject sid [reply] size" or "HMSG subject sid [reply] header-size size".
func request(fields []string) (reply string, size int, err error) {
	least := 4
	if fields[0] == "HMSG" {
		least = 5
	}
	if len(fields) != least && len(fields) != least+1 {
		return "", 0, fmt.Errorf("nats: a message of %d words", len(fields))
	}
	if len(fields) == least+1 {
		reply = fields[3]
	}
	if size, err = strconv.Atoi(fields[len(fields)-1]); err != nil || size < 0 {
		return "", 0, fmt.Errorf("nats: a message of %q bytes", fields[len(fields)-1])
	}
	return reply, size, nil
}
