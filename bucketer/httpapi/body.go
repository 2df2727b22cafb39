package httpapi

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
)

// body is the part of a request's input that reads its JSON body. It leaves judging the text to the
// handler, who calls text first.
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
		if d, ok := ctx.Context().Value(bodyTimeoutKey{}).(time.Duration); ok {
			_ = ctx.SetReadDeadline(time.Now().Add(d)) // recorders of tests have none
		}
		if b.read, b.err = io.ReadAll(r); b.err != nil {
			b.err = bodyProblem(b.err)
		}
		// Not later: the server takes a deadline that passes while a request is answered for the caller's leaving.
		_ = ctx.SetReadDeadline(time.Time{})
	}
	return nil
}

// text returns the body, or the problem with it.
func (b *body) text() ([]byte, error) { return b.read, b.err }

// bodyProblem is what an error of reading a body means.
func bodyProblem(err error) *Problem {
	var (
		tooLarge *http.MaxBytesError
		timeout  net.Error
	)
	switch {
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

// checkMedia checks that a body is of one of the media types, in UTF-8. One that says nothing is believed to be.
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

// idempotencyKey reads the header Idempotency-Key, which may be quoted. It returns "" if there is none.
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
