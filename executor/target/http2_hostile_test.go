package target

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// Types and flags of frames (RFC 9113, section 6).
const (
	frameHeaders, frameSettings, frameWindowUpdate, frameContinuation = 1, 4, 8, 9
	endStream, endHeaders                                             = 1, 4

	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frame makes a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind)) // #nosec G115 -- some KiB
	f = binary.BigEndian.AppendUint32(append(f, flags), stream)
	return append(f, payload...)
}

// literal makes a header of HPACK that no table keeps, with a length of at most 16,383.
func literal(name, value string) string {
	text := func(s string) string {
		if n := len(s) - 127; n >= 0 {
			return string([]byte{127, byte(n&127 | 128), byte(n >> 7)}) + s // #nosec G115 -- bounded
		}
		return string([]byte{byte(len(s))}) + s // #nosec G115 -- bounded
	}
	return "\x00" + text(name) + text(value)
}

// speak2 starts a server of HTTP/2 that reads the first request of a connection and hands that to
// f, with the number of the stream that waits for an answer.
func speak2(t *testing.T, f func(conn net.Conn, stream uint32)) (url string, trust *tls.Config) {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	l, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				if _, err := io.ReadFull(r, make([]byte, len(preface))); err != nil {
					t.Errorf("read the preface: %v", err)
					return
				}
				_, _ = conn.Write(frame(frameSettings, 0, 0, ""))
				for head := make([]byte, 9); ; {
					if _, err := io.ReadFull(r, head); err != nil {
						return
					}
					stream := binary.BigEndian.Uint32(head[5:])
					if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
						return
					}
					if head[3] == frameHeaders {
						all.Go(func() { _, _ = io.Copy(io.Discard, r) }) // what else it says, so that it never waits for us
						f(conn, stream)
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return "https://" + l.Addr().String() + "/", certified.Client().Transport.(*http.Transport).TLSClientConfig
}

// TestHTTP2BoundsHeaders: headers without end, in whatever frames they come, cost a failed attempt
// and no more than a connection's buffers.
func TestHTTP2BoundsHeaders(t *testing.T) {
	const (
		ok, hints = "\x88", "\x08\x03103" // :status
		most      = 64 << 20              // what may be on its way before the client hangs up
	)
	filler := literal("x-filler", strings.Repeat("x", 8000))
	for name, c := range map[string]struct {
		first, again func(stream uint32) []byte
		want         string
	}{
		"in continuations": {
			func(s uint32) []byte { return frame(frameHeaders, 0, s, ok) },
			func(s uint32) []byte { return frame(frameContinuation, 0, s, filler) }, "the answer is not valid HTTP",
		},
		"one header": {
			func(s uint32) []byte { return frame(frameHeaders, 0, s, ok+"\x00\x01x\x7f\x80\xff\xff\xff\x07") }, // of 2 GiB
			func(s uint32) []byte { return frame(frameContinuation, 0, s, strings.Repeat("x", 8000)) }, "the answer is not valid HTTP",
		},
		"interim answers": {
			func(uint32) []byte { return nil },
			func(s uint32) []byte { return frame(frameHeaders, endHeaders, s, hints+filler) }, "the headers of the answer are too large",
		},
		"trailers": {
			func(s uint32) []byte {
				return append(frame(frameHeaders, endHeaders, s, ok), frame(frameHeaders, endStream, s, filler)...)
			},
			func(s uint32) []byte { return frame(frameContinuation, 0, s, filler) }, "the answer broke off: the answer is not valid HTTP",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			url, trust := speak2(t, func(conn net.Conn, stream uint32) {
				_, _ = conn.Write(c.first(stream))
				for block := bytes.Repeat(c.again(stream), 20); sent.Load() <= most; {
					n, err := conn.Write(block)
					sent.Add(int64(n))
					if err != nil {
						return // the client hung up: what this test waits for
					}
				}
			})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ErrTimeout)
			defer cancel()
			h := newHTTP(t, HTTPConfig{tls: trust})
			res := h.Run(ctx, callTo(url))
			if res.Outcome != schema.Failed || res.Final || res.Error != c.want {
				t.Errorf("Run: got %+v after %d bytes, want a failure with %q", res, sent.Load(), c.want)
			}
			if n := sent.Load(); n > most {
				t.Errorf("the server could send %d bytes", n)
			}
		})
	}
}
