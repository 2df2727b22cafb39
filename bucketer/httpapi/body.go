package httpapi

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
)

// body is the part of a request's input that reads its JSON body. The handler calls text first, and
// judges the text.
type body struct {
	read []byte
	err  error
}

// Resolve reads the body: huma calls it before the handler.
func (b *body) Resolve(ctx huma.Context) []error {
	if b.err = checkMedia(ctx.Header("Content-Type"), "application/json", "application/merge-patch+json"); b.err != nil {
		return nil
	}
	if e := ctx.Header("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		b.err = plain(http.StatusUnsupportedMediaType, "The body must not be compressed here.")
		return nil
	}
	if r := ctx.BodyReader(); r != nil {
		allowed, ok := ctx.Context().Value(bodyBudgetKey{}).(*bodyBudget)
		if !ok {
			allowed = new(bodyBudget)
		} else {
			_ = ctx.SetReadDeadline(time.Now().Add(allowed.span)) // recorders of tests have none
		}
		if b.read, b.err = allowed.read(r); b.err != nil {
			b.err = bodyProblem(b.err)
		}
		forwardingOf(ctx.Context()).read(b.read)
		// Not later: if the deadline passes while the request is answered, the server concludes
		// that the caller has left.
		_ = ctx.SetReadDeadline(time.Time{})
	}
	return nil
}

// text returns the body, or the problem with it.
func (b *body) text() ([]byte, error) { return b.read, b.err }

// smallBody is how many bytes of a body are read without taking from the memory for bodies.
const smallBody = 16 << 10

// bodyBudget is what a request may spend on its body: time, and memory out of what all requests
// have together.
type bodyBudget struct {
	span   time.Duration
	memory *atomic.Int64 // left for bodies, in bytes; nil = without end
	taken  int64
}

// read reads a body to its end. It takes the memory beyond smallBody before it fills it. If there
// is not enough, the error is bucketer.ErrOverloaded.
func (a *bodyBudget) read(r io.Reader) ([]byte, error) {
	text := make([]byte, 0, 512)
	for {
		if len(text) == cap(text) {
			size := 2 * cap(text)
			if size > smallBody && !a.take(int64(size)) {
				return nil, bucketer.ErrOverloaded
			}
			text = append(make([]byte, 0, size), text...)
		}
		n, err := r.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

func (a *bodyBudget) take(n int64) bool {
	if a.memory == nil {
		return true
	}
	if a.memory.Add(-n) < 0 {
		a.memory.Add(n)
		return false
	}
	a.taken += n
	return true
}

// release gives back what was taken.
func (a *bodyBudget) release() { a.memory.Add(a.taken) }

// bodyProblem returns the problem that an error of reading a body means.
func bodyProblem(err error) *Problem {
	var (
		tooLarge *http.MaxBytesError
		timeout  net.Error
	)
	switch {
	case errors.Is(err, bucketer.ErrOverloaded):
		return problemOf(err)
	case errors.As(err, &tooLarge):
		return &Problem{
			Type: problemType + "too-large", Title: "The request is too large", Status: http.StatusRequestEntityTooLarge,
			Detail: "A body is at most 1 MiB.",
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		return plain(http.StatusRequestTimeout, "The body did not come in time.")
	}
	return plain(http.StatusBadRequest, "The body ended before its end.")
}

// checkMedia checks that a body is of one of the media types, in UTF-8. A body without a type
// counts as being so.
func checkMedia(contentType string, allowed ...string) error {
	if contentType == "" {
		return nil
	}
	refused := plain(http.StatusUnsupportedMediaType, "The content type must be "+strings.Join(allowed, " or ")+", in UTF-8.")
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return refused
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return refused
	}
	for _, a := range allowed {
		if media == a {
			return nil
		}
	}
	return refused
}

// idempotencyKey reads the header Idempotency-Key, which may be quoted. It returns "" if there is
// none.
func idempotencyKey(header string) (string, []bucketer.Fault) {
	if header == "" {
		return "", nil
	}
	key := header
	if strings.HasPrefix(key, `"`) {
		if len(key) < 2 || !strings.HasSuffix(key, `"`) {
			return "", []bucketer.Fault{{Location: "header." + keyHeader, Message: "starts with a quote and does not end with one"}}
		}
		key = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(key[1 : len(key)-1])
	}
	if what := bucketer.KeyFault(key); what != "" {
		return "", []bucketer.Fault{{Location: "header." + keyHeader, Message: what}}
	}
	return key, nil
}

// also adds faults that were found elsewhere to the error of decoding a body.
func also(err error, faults []bucketer.Fault) error {
	var found bucketer.Faults
	switch {
	case len(faults) == 0:
		return err
	case err == nil:
		return bucketer.Faults(faults)
	case errors.As(err, &found):
		return append(append(bucketer.Faults{}, faults...), found...)
	}
	return err
}
