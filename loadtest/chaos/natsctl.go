package chaos

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/wait"
)

// This file speaks to JetStream's own API (subjects $JS.API.…) in a few lines of the NATS protocol,
// as an operator's tool would. The product's queue makes missing streams when it connects, so it
// would repair what was just broken.

const (
	natsTimeout = 10 * time.Second
	maxNATSBody = 8 << 20
	// streamPrefix is how Carillon's own streams are called.
	streamPrefix = "carillon_runs_"
)

// errNATS is an error that the server answered.
var errNATS = errors.New("nats")

// A natsConn is a connection on which requests are made one at a time.
type natsConn struct {
	conn    net.Conn
	r       *bufio.Reader
	inbox   string // of this connection alone: whoever shares one gets the other's answers
	version string // of the server
}

// dialNATS connects to a server, "nats://host:port".
func dialNATS(ctx context.Context, url string) (n *natsConn, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	n = &natsConn{conn: conn, r: bufio.NewReader(conn), inbox: "_INBOX." + rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("connect to nats: %w", err), conn.Close())
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(natsTimeout)); err != nil {
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
		return nil, fmt.Errorf("%w: a server says INFO first, not %.80q", errNATS, line)
	}
	n.version = hello.Version
	_, err = io.WriteString(conn, `CONNECT {"verbose":false,"pedantic":false,"name":"carillon-load","lang":"go","protocol":1}`+"\r\nSUB "+n.inbox+" 1\r\nPING\r\n")
	if err != nil {
		return nil, err
	}
	for {
		switch line, err := n.line(); {
		case err != nil:
			return nil, err
		case line == "PONG":
			return n, nil
		case strings.HasPrefix(line, "-ERR"):
			return nil, fmt.Errorf("%w: %s", errNATS, line)
		}
	}
}

func (n *natsConn) close() error { return n.conn.Close() }

func (n *natsConn) line() (string, error) {
	s, err := n.r.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

// request asks subject and reads the JSON answer into into, unless that is nil.
func (n *natsConn) request(subject, payload string, into any) error {
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
		return fmt.Errorf("ask %s: %w: %d %s", subject, errNATS, fault.Error.Code, fault.Error.Description)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("ask %s: read answer: %w", subject, err)
	}
	return nil
}

func (n *natsConn) exchange(subject, payload string) ([]byte, error) {
	if err := n.conn.SetDeadline(time.Now().Add(natsTimeout)); err != nil {
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
			return nil, fmt.Errorf("%w: %s", errNATS, line)
		case fields[0] == "MSG": // MSG subject sid [reply] size
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil || size < 0 || size > maxNATSBody {
				return nil, fmt.Errorf("%w: a message of %q bytes", errNATS, fields[len(fields)-1])
			}
			body := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(n.r, body); err != nil {
				return nil, err
			}
			return body[:size], nil
		}
	}
}

// A StreamInfo is one of Carillon's streams.
type StreamInfo struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
	Replicas int    `json:"replicas"`
	Leader   string `json:"leader,omitempty"` // the server that leads it; "" = none, or there is but one server
}

// streams returns Carillon's streams.
func (n *natsConn) streams() ([]StreamInfo, error) {
	var list struct {
		Streams []struct {
			Config struct {
				Name     string `json:"name"`
				Replicas int    `json:"num_replicas"`
			} `json:"config"`
			State struct {
				Messages int `json:"messages"`
			} `json:"state"`
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		} `json:"streams"`
	}
	if err := n.request("$JS.API.STREAM.LIST", "", &list); err != nil {
		return nil, err
	}
	var all []StreamInfo
	for _, s := range list.Streams {
		if strings.HasPrefix(s.Config.Name, streamPrefix) {
			all = append(all, StreamInfo{s.Config.Name, s.State.Messages, s.Config.Replicas, s.Cluster.Leader})
		}
	}
	return all, nil
}

// streamsOf asks one server for Carillon's streams.
func streamsOf(ctx context.Context, url string) (all []StreamInfo, err error) {
	n, err := dialNATS(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	return n.streams()
}

// deleteStreams deletes Carillon's streams with all messages, and returns what they were.
func deleteStreams(ctx context.Context, url string) (gone []StreamInfo, err error) {
	n, err := dialNATS(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	all, err := n.streams()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there is no stream %s… to delete", errNATS, streamPrefix)
	}
	for _, s := range all {
		if err := n.request("$JS.API.STREAM.DELETE."+s.Name, "", nil); err != nil {
			return gone, err
		}
		gone = append(gone, s)
	}
	return gone, nil
}

// streamLeader, as the member of a step, is the NATS server that leads a stream of Carillon's. A
// step that mends uses the server of the step that broke.
const streamLeader = "nats leader"

// leaderLimit bounds the wait for a leader: after a kill there is none for some seconds.
const leaderLimit = 20 * time.Second

// leader returns the server that streamLeader means in a step.
func (r *members) leader(ctx context.Context, act Act) (name string, err error) {
	if act == ActThaw || act == ActStart || act == ActLoosen {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.led, nil
	}
	for limit := time.Now().Add(leaderLimit); ; {
		for _, url := range r.cluster().NATSURLs() { // some may be away
			all, err := streamsOf(ctx, url)
			if i := slices.IndexFunc(all, func(s StreamInfo) bool { return s.Leader != "" }); err == nil && i >= 0 {
				r.mu.Lock()
				r.led = all[i].Leader
				r.mu.Unlock()
				return all[i].Leader, nil
			}
		}
		if time.Now().After(limit) {
			return "", fmt.Errorf("%w: no server leads a stream %s…", errNATS, streamPrefix)
		}
		if err := wait.For(ctx, agreePoll); err != nil {
			return "", err
		}
	}
}
