package target

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/schema"
)

func TestHTTPCallsAreSignedForWhomTheyReach(t *testing.T) {
	one, two := webhook.NewSecret(), webhook.NewSecret()
	v, err := webhook.NewVerifier(webhook.FormatSecret(two))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	here := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/307", "/303":
			w.Header().Set("Location", "/")
			status := http.StatusTemporaryRedirect
			if r.URL.Path == "/303" {
				status = http.StatusSeeOther
			}
			w.WriteHeader(status)
			return
		}
		body, _ := io.ReadAll(r.Body)
		err := v.Verify(r.Header, body)
		if r.Header.Get("Webhook-Signature") == "" {
			err = errors.Join(err, errors.New("no signature"))
		}
		got <- err
	})
	h := newHTTP(t, HTTPConfig{})
	for name, c := range map[string]struct {
		path    string
		payload string
		body    string
		secrets [][]byte
		right   bool
	}{
		"signed":                      {"/", `{"a":1}`, "", [][]byte{two}, true},
		"while the secret is changed": {"/", `{"a":1}`, "", [][]byte{one, two}, true},
		"no payload":                  {"/", "", "", [][]byte{two}, true},
		"a payload that is not sent":  {"/", `{"a":1}`, "none", [][]byte{two}, true},
		"redirected with its body":    {"/307", `{"a":1}`, "", [][]byte{two}, true},
		"redirected without":          {"/303", `{"a":1}`, "", [][]byte{two}, true},
		"by another secret":           {"/", `{"a":1}`, "", [][]byte{one}, false},
		"not signed":                  {"/", `{"a":1}`, "", nil, false},
	} {
		call := callTo(here.URL + c.path)
		call.Secrets, call.Work.HTTP.Body = c.secrets, c.body
		if call.Payload = nil; c.payload != "" {
			call.Payload = []byte(c.payload)
		}
		res := h.Run(t.Context(), call)
		if err := <-got; res.Outcome != schema.Succeeded || (err == nil) != c.right {
			t.Errorf("%s: Run: got %s, and Verify %v; want a success that is right: %t", name, res.Outcome, err, c.right)
		}
	}
}
