package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/sink"
)

// drainTimeout bounds how long a stopping sink waits for calls under way.
const drainTimeout = 5 * time.Second

func newSink() *cobra.Command {
	var listen []string
	var certificate, key, out string
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Receive calls over HTTP and record each",
		Long: `Receive calls over HTTP and record each. --out is appended to, so a sink may be killed and started
again; its record then has a gap. GET /stats returns the counters. Stop it with SIGTERM or SIGINT.

An address says how its calls are answered, by segments before the last two of its path:

  work-500ms    after so long, to the end even if the caller has gone
  fail, fail-2  with 500: all attempts, or the first two
  status-404    with that status; beside fail it is the failure's
  after-3s      failures have Retry-After
  hang, drip    never, or without end
  cut, cut-1    not at all: all attempts, or the first

With --tls-cert it speaks TLS and HTTP/2.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			f, err := appendTo(out)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			lns, err := listenAll(listen, certificate, key)
			if err != nil {
				return err
			}
			return serveSink(cmd.Context(), sink.New(f), lns, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&listen, "listen", []string{"127.0.0.1:9900"}, "addresses to listen on; one has about 28,000 ports for callers of one machine")
	f.StringVar(&certificate, "tls-cert", "", "file of a certificate to speak TLS with")
	f.StringVar(&key, "tls-key", "", "file of its key")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	f.StringVar(&out, "out", "", "record, appended to (required)")
	required(cmd, "out")
	return cmd
}

// sinkStreams is how many calls a connection of HTTP/2 may have under way.
const sinkStreams = 1000

// listenAll listens on all addresses, with TLS if a certificate is given.
func listenAll(addresses []string, certificate, key string) (lns []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, ln := range lns {
				_ = ln.Close() // nobody has connected
			}
		}
	}()
	var secure *tls.Config
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	for _, address := range addresses {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return lns, fmt.Errorf("listen: %w", err)
		}
		if secure != nil {
			ln = tls.NewListener(ln, secure)
		}
		lns = append(lns, ln)
	}
	return lns, nil
}

// appendTo opens a record at its end, after ending a line that a killed sink left half written.
func appendTo(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	if err := endLine(f); err != nil {
		return nil, fmt.Errorf("open record: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

func endLine(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err = f.Write([]byte{'\n'})
	}
	return err
}

// newConns are the connections without a request so far.
type newConns struct {
	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	closed bool
}

// note is an http.Server.ConnState.
func (n *newConns) note(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(n.conns, c)
	case n.closed:
		_ = c.Close() // nobody has used it
	default:
		if n.conns == nil {
			n.conns = make(map[net.Conn]bool)
		}
		n.conns[c] = true
	}
}

func (n *newConns) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for c := range n.conns {
		_ = c.Close() // nobody has used it
	}
}

// serveSink serves until ctx is done. The record is closed after the last call has been answered.
func serveSink(ctx context.Context, s *sink.Sink, lns []net.Listener, progress io.Writer) error {
	var unused newConns
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ConnState: unused.note, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: sinkStreams},
	}
	served := make(chan error, 1)
	go func() {
		var serving errgroup.Group
		addresses := make([]string, len(lns))
		for i, ln := range lns {
			addresses[i] = ln.Addr().String()
			serving.Go(func() error { return srv.Serve(ln) })
		}
		_, _ = fmt.Fprintf(progress, "sink listens on %s\n", strings.Join(addresses, ","))
		served <- serving.Wait()
	}()
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	recorded := make(chan error, 1)
	go func() { recorded <- s.Run(recording) }()

	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var errs []error
	for last := int64(0); ; {
		select {
		case <-tick.C:
			if st := s.Stats(); st.Seen != last {
				_, _ = fmt.Fprintf(progress, "sink %d/s, %d in all, %d failed, %d dropped\n", st.Seen-last, st.Seen, st.Failed, st.Dropped)
				last = st.Seen
			}
			continue
		case <-ctx.Done():
		case err := <-recorded:
			errs = append(errs, err)
			recorded <- nil
		case err := <-served:
			errs = append(errs, fmt.Errorf("serve: %w", err))
			served <- http.ErrServerClosed
		}
		break
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	// Shutdown waits at least 5 s for a connection without a request, which is longer than
	// drainTimeout.
	unused.close()
	if err := srv.Shutdown(drain); err != nil {
		errs = append(errs, fmt.Errorf("stop serving: %w", err), srv.Close())
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		errs = append(errs, fmt.Errorf("serve: %w", err))
	}
	stopRecording()
	errs = append(errs, <-recorded)
	_, _ = fmt.Fprintf(progress, "sink stopped, %d in all\n", s.Stats().Seen)
	return errors.Join(errs...)
}
