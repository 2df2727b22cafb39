package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Who takes nothing in, but says something now and then so that nobody asks whether he lives, keeps
// no connection for good.
func TestHTTP2ConnectionThatIsNotReadEnds(t *testing.T) {
	const patience = 100 * time.Millisecond
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	trust := certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName, trust.NextProtos = "example.com", []string{"h2"}
	offer := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}
	ours, theirs := net.Pipe() // holds nothing: what is not read is not written
	t.Cleanup(func() { _ = ours.Close() })
	ended := make(chan error, 1)
	go func() { ended <- stall(tls.Server(theirs, offer), patience/10) }()
	h := newHTTP(t, HTTPConfig{patience: patience})
	h.transport.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn := tls.Client(ours, trust)
		err := conn.HandshakeContext(ctx)
		return conn, err
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	attempt := make(chan Result, 1)
	call := callTo("https://example.com/")
	call.Payload = bytes.Repeat([]byte("1"), 512<<10)
	go func() { attempt <- h.Run(ctx, call) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a connection that takes nothing is kept")
	}
	cancel(ErrTimeout)
	<-attempt
}

// stall speaks HTTP/2 until a request has come, then lets all of its body come but reads no more of
// it, and says something every so often that needs no answer, until the connection ends.
func stall(conn net.Conn, often time.Duration) error {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(preface))); err != nil {
		return fmt.Errorf("read the preface: %w", err)
	}
	const window = "\x00\x10\x00\x00" // 1 MiB
	settings := make(chan error, 1)
	go func() {
		_, err := conn.Write(frame(frameSettings, 0, 0, "\x00\x04"+window)) // of a stream
		settings <- err
	}()
	head := make([]byte, 9)
	for asked, settled := false, false; !asked || !settled; {
		if _, err := io.ReadFull(conn, head); err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		asked = asked || head[3] == frameHeaders
		settled = settled || head[3] == frameSettings && head[4] != 0 // it has taken ours in
	}
	if err := <-settings; err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	for more := window; ; more = "\x00\x00\x00\x01" {
		if _, err := conn.Write(frame(frameWindowUpdate, 0, 0, more)); err != nil {
			return nil
		}
		time.Sleep(often)
	}
}
