package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"

	"carillon.dev/carillon/schema"
)

// read takes in the answer to a call of a tenant and says how the attempt ended.
func (h *HTTP) read(ctx context.Context, tenant string, answer *http.Response) Result {
	defer answer.Body.Close()
	res := StatusResult(answer.StatusCode, answer.Header.Get("Retry-After"), h.now())
	if answer.StatusCode < http.StatusOK {
		return res // a switch of protocols: what follows is not a body
	}
	var err error
	var body body
	body, err = h.readBody(answer.Body, answer.ContentLength, h.budget.Grant(tenant))
	res.Output, res.OutputCut, res.Memory = body.kept, body.cut, body.memory
	switch {
	case err == nil:
	case ctx.Err() != nil:
		res = Ended(ctx)
		res.Status, res.Output, res.OutputCut, res.Memory = answer.StatusCode, body.kept, body.cut, body.memory
	case res.Outcome == schema.Succeeded:
		text, _ := explain(err, "")
		res.Outcome, res.Error = schema.Failed, "the answer broke off: "+text
	}
	return res
}

// StatusResult says what the status of an answer means.
func StatusResult(status int, retryAfter string, now time.Time) Result {
	if status >= 200 && status < 300 {
		return Result{Outcome: schema.Succeeded, Status: status}
	}
	res := Result{Outcome: schema.Failed, Status: status, Error: "answered " + strconv.Itoa(status)}
	if text := http.StatusText(status); text != "" {
		res.Error += " " + text
	}
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		res.RetryAfter = parseRetryAfter(retryAfter, now)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
	case status >= 400 && status < 500:
		res.Final = true
	}
	return res
}

// parseRetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds or a date. It
// returns 0 for what is neither, or in the past, and at most MaxRetryAfter.
func parseRetryAfter(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0
	}
	if strings.Trim(s, "0123456789") == "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

// body is what was kept of what a callee said: its head.
type body struct {
	kept   []byte
	cut    bool // there was more
	memory ByteGrant
}

// readBody reads a body of length bytes (-1: not known) to its end, or to the bound of a body, and
// keeps its beginning, for which it takes room.
func (h *HTTP) readBody(from io.Reader, length int64, room ByteGrant) (b body, err error) {
	if length == 0 {
		return body{}, nil
	}
	size := 512
	if length > 0 {
		size = int(min(length, int64(min(h.maxOutput, freeOutput))))
	}
	b.kept, b.memory = make([]byte, 0, size+1), room
	keep := min(h.maxOutput, freeOutput) // as yet
	for {
		if len(b.kept) == keep {
			if keep == h.maxOutput || !b.memory.grow() {
				break
			}
			keep = min(keep+grantStep, h.maxOutput)
		}
		if len(b.kept) == cap(b.kept) {
			b.kept = append(b.kept, 0)[:len(b.kept)]
		}
		n, err := from.Read(b.kept[len(b.kept):min(cap(b.kept), keep)])
		b.kept = b.kept[:len(b.kept)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
	// The rest is read so that the connection can be used again. Beyond the bound it is dropped.
	more, err := io.CopyN(io.Discard, from, int64(h.maxBody-len(b.kept))+1)
	b.cut = more > 0
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// discard ends an answer that is not read.
func discard(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, maxDiscard) // only for the sake of the connection
	_ = answer.Body.Close()
}

// explain puts an error of the HTTP client into words of ours, which name neither addresses nor
// anything that was sent; final means that it will never be otherwise.
func explain(err error, host string) (text string, final bool) {
	var (
		dns      *net.DNSError
		errno    syscall.Errno
		netErr   net.Error
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		alert    tls.AlertError
		remote   *net.OpError
		protocol textproto.ProtocolError
	)
	switch {
	case errors.Is(err, errDenied):
		return boundedHost(host) + ": " + errDenied.Error(), true
	case errors.Is(err, errUnreached):
		return boundedHost(host) + ": " + errUnreached.Error(), false
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return boundedHost(host) + ": host not found", false
		}
		return boundedHost(host) + ": name look-up failed", false
	case errors.As(err, &hostname):
		return "the certificate is not for this host", false
	case errors.As(err, &unknown):
		return "the certificate is signed by an unknown authority", false
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet", false
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "the certificate is not valid", false
	case errors.As(err, &record), errors.As(err, &alert), errors.As(err, &remote) && remote.Op == "remote error": // TLS's own: an alert
		return "the TLS handshake failed", false
	case errors.As(err, &errno):
		return errno.Error(), false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed", false
	case errors.As(err, &protocol):
		return "the answer is not valid HTTP", false
	case errors.As(err, &netErr) && netErr.Timeout():
		return "connecting took too long", false
	}
	// The rest has no types: what is not recognised only says less.
	for _, w := range [...]struct {
		part, text string
		final      bool
	}{
		{"net/http: invalid header field", "a header of the task cannot be sent", true},
		{"response headers exceeded", "the headers of the answer are too large", false},
		{"response header list larger", "the headers of the answer are too large", false},
		{"header list too large", "the headers of the answer are too large", false},
		{"too many 1xx", "the headers of the answer are too large", false},
		{"closed idle connection", "the connection was closed", false},
		{"connection error: ", "the answer is not valid HTTP", false}, // of HTTP/2, as are headers far too large
		{"malformed", "the answer is not valid HTTP", false},
		{"chunk", "the answer is not valid HTTP", false},
		{"bad Content-Length", "the answer is not valid HTTP", false},
		{"unsupported transfer encoding", "the answer is not valid HTTP", false},
	} {
		if strings.Contains(err.Error(), w.part) {
			return w.text, w.final
		}
	}
	return "the connection failed", false
}

// boundedHost returns a host for a text: bounded, as a redirect may name anything.
func boundedHost(host string) string { return Truncate(host, 253) }
