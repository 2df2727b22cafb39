// Package nats speaks the few verbs of the NATS protocol that load tests need.
//
// An operator's tool would ask a server as [Conn] does, for JetStream's own API (subjects $JS.API.…). The
// product's queue makes missing streams when it connects, so it would repair what a test just broke.
// [Respond] is a worker that uses little CPU beside what is measured.
package nats

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	timeout  = 10 * time.Second // of one request
	mostBody = 8 << 20          // bytes of an answer
)

// greeting is what a client says first. subscription is a subject with its queue group, if any, and a
// number. Without headers the server sends MSG alone.
func greeting(subscription string, headers bool) string {
	return fmt.Sprintf(`CONNECT {"verbose":false,"pedantic":false,"headers":%t,"name":"carillon-load","lang":"go","protocol":1}`+
		"\r\nSUB %s\r\nPING\r\n", headers, subscription)
}

// ErrNATS is an error that the server answered.
var ErrNATS = errors.New("nats")

// A Conn is a connection on which requests are made one at a time.
type Conn struct {
	conn    net.Conn
	r       *bufio.Reader
	inbox   string // of this connection alone: a shared one would mix the answers
	Version string // of the server
}

// Dial connects to a server, "nats://host:port".
func Dial(ctx context.Context, url string) (n *Conn, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	n = &Conn{conn: conn, r: bufio.NewReader(conn), inbox: "_INBOX." + rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("connect to nats: %w", err), conn.Close())
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	line, err := n.line()
	if err != nil {
		return nil, err
	}
	info, ok := strings.CutPrefix(line, "INFO ")
	var hello struct {
		Version string `json:"version"`
	}
	if !ok || json.Unmarshal([]byte(info), &hello) != nil {
		return nil, fmt.Errorf("%w: a server says INFO first, not %.80q", ErrNATS, line)
	}
	n.Version = hello.Version
	if _, err = io.WriteString(conn, greeting(n.inbox+" 1", false)); err != nil {
		return nil, err
	}
	for {
		switch line, err := n.line(); {
		case err != nil:
			return nil, err
		case line == "PONG":
			return n, nil
		case strings.HasPrefix(line, "-ERR"):
			return nil, fmt.Errorf("%w: %s", ErrNATS, line)
		}
	}
}

// Close closes the connection.
func (n *Conn) Close() error { return n.conn.Close() }

func (n *Conn) line() (string, error) {
	s, err := n.r.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

// Request asks subject and reads the JSON answer into into, unless that is nil.
func (n *Conn) Request(subject, payload string, into any) error {
	body, err := n.exchange(subject, payload)
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	var fault struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &fault); err != nil {
		return fmt.Errorf("ask %s: read answer: %w", subject, err)
	}
	if fault.Error != nil {
		return fmt.Errorf("ask %s: %w: %d %s", subject, ErrNATS, fault.Error.Code, fault.Error.Description)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("ask %s: read answer: %w", subject, err)
	}
	return nil
}

func (n *Conn) exchange(subject, payload string) ([]byte, error) {
	if err := n.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(n.conn, "PUB %s %s %d\r\n%s\r\n", subject, n.inbox, len(payload), payload); err != nil {
		return nil, err
	}
	for {
		line, err := n.line()
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "PING":
			if _, err := io.WriteString(n.conn, "PONG\r\n"); err != nil {
				return nil, err
			}
		case fields[0] == "-ERR":
			return nil, fmt.Errorf("%w: %s", ErrNATS, line)
		case fields[0] == "MSG":
			_, size, err := message(fields)
			if err != nil {
				return nil, err
			}
			if size > mostBody {
				return nil, fmt.Errorf("%w: a message of %d bytes", ErrNATS, size)
			}
			body := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(n.r, body); err != nil {
				return nil, err
			}
			return body[:size], nil
		}
	}
}

// message reads the head of a message: "MSG subject sid [reply] size" or "HMSG subject sid [reply] header-size size".
func message(fields []string) (reply string, size int, err error) {
	least := 4
	if fields[0] == "HMSG" {
		least = 5
	}
	if len(fields) != least && len(fields) != least+1 {
		return "", 0, fmt.Errorf("%w: a message of %d words", ErrNATS, len(fields))
	}
	if len(fields) == least+1 {
		reply = fields[3]
	}
	if size, err = strconv.Atoi(fields[len(fields)-1]); err != nil || size < 0 {
		return "", 0, fmt.Errorf("%w: a message of %q bytes", ErrNATS, fields[len(fields)-1])
	}
	return reply, size, nil
}
