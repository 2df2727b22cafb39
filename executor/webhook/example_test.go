package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"carillon.dev/carillon/executor/webhook"
)

// A receiver reads the body as it is, checks it, and only then looks into it.
func ExampleVerifier() {
	verifier, err := webhook.NewVerifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	hook := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err := verifier.Verify(r.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintln(w, "from Carillon:", string(body))
	}

	// What Carillon sends: the run's id, the time, and the signature.
	secret, _ := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	call := func(sent, signed string) {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(sent))
		now := time.Now()
		r.Header.Set(webhook.HeaderID, "0199d3a0-1c2e-8000-8000-000000000001")
		r.Header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
		r.Header.Set(webhook.HeaderSignature, webhook.Sign("0199d3a0-1c2e-8000-8000-000000000001", now, []byte(signed), secret))
		w := httptest.NewRecorder()
		hook(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	call(`{"amount":1}`, `{"amount":1}`)
	call(`{"amount":100}`, `{"amount":1}`)
	// Output:
	// 200 from Carillon: {"amount":1}
	// 401 webhook: no signature is right
}
