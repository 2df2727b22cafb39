package target

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// credentialsText is the secret of these tests.
const credentialsText = `{"access_key_id":"AKIAIOSFODNN7EXAMPLE","secret_access_key":"` + secretText + `","session_token":"token-s3cret"}`

// invoke returns an attempt that invokes a function at an endpoint.
func invoke(endpoint, invocation string) Call {
	c := callTo("")
	c.Work.HTTP, c.Work.Lambda = nil, &schema.LambdaTarget{Function: "resize:live", Region: "eu-central-1", Invocation: invocation, Credentials: "aws", Endpoint: endpoint}
	c.Values = auth.Values{"aws": {[]byte(credentialsText)}}
	return c
}

// asLambda answers as Lambda does.
func asLambda(status int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestLambdaSaysHowTheFunctionEnded(t *testing.T) {
	errorOf := func(kind string) map[string]string {
		return map[string]string{"X-Amzn-Errortype": kind + ":http://internal.amazon.com/"}
	}
	for name, c := range map[string]struct {
		invocation string
		answer     http.HandlerFunc
		want       Result
	}{
		"it succeeds":        {"sync", asLambda(200, nil, `{"ok":true}`), Result{Outcome: schema.Succeeded, Status: 200, Output: []byte(`{"ok":true}`)}},
		"it answers nothing": {"sync", asLambda(200, nil, ``), Result{Outcome: schema.Succeeded, Status: 200}},
		"it is accepted":     {"async", asLambda(202, nil, ``), Result{Outcome: schema.Succeeded, Status: 202}},
		"a function error": {
			"sync", asLambda(200, map[string]string{"X-Amz-Function-Error": "Unhandled"}, `{"errorType":"KeyError","errorMessage":"'size'","stackTrace":[]}`),
			Result{Outcome: schema.Failed, Status: 200, Error: "function error: KeyError: 'size'", Output: []byte(`{"errorType":"KeyError","errorMessage":"'size'","stackTrace":[]}`)},
		},
		"a function error of no form": {
			"sync", asLambda(200, map[string]string{"X-Amz-Function-Error": "Handled"}, `"no"`), Result{Outcome: schema.Failed, Status: 200, Error: "function error", Output: []byte(`"no"`)},
		},
		"a function error that says the secret": {
			"sync", asLambda(200, map[string]string{"X-Amz-Function-Error": "Unhandled"}, `{"errorMessage":"`+secretText+` token-s3cret"}`),
			Result{Outcome: schema.Failed, Status: 200, Error: "function error: … …", Output: []byte(`{"errorMessage":"… …"}`)},
		},
		"it is throttled": {
			"sync", asLambda(429, map[string]string{"X-Amzn-Errortype": "TooManyRequestsException", "Retry-After": "17"}, `{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","message":"Rate Exceeded."}`),
			Result{Outcome: schema.Failed, Status: 429, Error: "answered 429 Too Many Requests: TooManyRequestsException", RetryAfter: 17 * time.Second, Output: []byte(`{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","message":"Rate Exceeded."}`)},
		},
		"it is throttled, async":   {"async", asLambda(429, map[string]string{"X-Amzn-Errortype": "TooManyRequestsException", "Retry-After": "3"}, `{}`), Result{Outcome: schema.Failed, Status: 429, Error: "answered 429 Too Many Requests: TooManyRequestsException", RetryAfter: 3 * time.Second, Output: []byte(`{}`)}},
		"there is none":            {"sync", asLambda(404, errorOf("ResourceNotFoundException"), `{}`), Result{Outcome: schema.Failed, Status: 404, Error: "answered 404 Not Found: ResourceNotFoundException", Final: true, Output: []byte(`{}`)}},
		"it may not be called":     {"sync", asLambda(403, errorOf("AccessDeniedException"), `{}`), Result{Outcome: schema.Failed, Status: 403, Error: "answered 403 Forbidden: AccessDeniedException", Final: true, Output: []byte(`{}`)}},
		"it is being changed":      {"sync", asLambda(409, errorOf("ResourceConflictException"), `{}`), Result{Outcome: schema.Failed, Status: 409, Error: "answered 409 Conflict: ResourceConflictException", Output: []byte(`{}`)}},
		"Lambda is broken":         {"sync", asLambda(500, errorOf("ServiceException"), `{}`), Result{Outcome: schema.Failed, Status: 500, Error: "answered 500 Internal Server Error: ServiceException", Output: []byte(`{}`)}},
		"Lambda is not there":      {"sync", asLambda(503, map[string]string{"Retry-After": "2"}, `<html>`), Result{Outcome: schema.Failed, Status: 503, Error: "answered 503 Service Unavailable", RetryAfter: 2 * time.Second, Output: []byte(`<html>`)}},
		"an error says a secret":   {"sync", asLambda(400, map[string]string{"X-Amzn-Errortype": secretText}, `{"message":"`+secretText+`"}`), Result{Outcome: schema.Failed, Status: 400, Error: "answered 400 Bad Request", Final: true, Output: []byte(`{"message":"…"}`)}},
		"it redirects":             {"sync", asLambda(307, map[string]string{"Location": "http://169.254.169.254/"}, ``), Result{Outcome: schema.Failed, Status: 307, Error: "answered 307 Temporary Redirect"}},
		"it closes the connection": {"sync", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Result{Outcome: schema.Failed, Error: "the connection was closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			s := serve(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); c.answer(w, r) })
			res := NewLambda(newHTTP(t, HTTPConfig{})).Run(t.Context(), invoke(s.URL, c.invocation))
			if strings.TrimPrefix(fmt.Sprintf("%+v", res), " ") != fmt.Sprintf("%+v", withMemoryOf(c.want, res)) || calls.Load() != 1 {
				t.Errorf("Run: got %+v, output %s, after %d calls\nwant %+v, output %s, after one", res, res.Output, calls.Load(), c.want, c.want.Output)
			}
		})
	}
}

// withMemoryOf returns want with what another result holds of memory.
func withMemoryOf(want, res Result) Result {
	want.Memory = res.Memory
	if want.Output == nil && len(res.Output) == 0 {
		want.Output = res.Output
	}
	return want
}

// What a function is sent: its payload, who calls, and the facts of the attempt where AWS passes
// them on.
func TestLambdaSendsWhatAFunctionReceives(t *testing.T) {
	type request struct {
		path, body string
		header     http.Header
	}
	got := make(chan request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.URL.EscapedPath(), string(body), r.Header}
		if r.Header.Get("X-Amz-Invocation-Type") == "Event" {
			w.WriteHeader(http.StatusAccepted)
		}
	})
	l := NewLambda(newHTTP(t, HTTPConfig{}))
	for invocation, kind := range map[string]string{"sync": "RequestResponse", "async": "Event"} {
		call := invoke(s.URL+"/base", invocation)
		if res := l.Run(t.Context(), call); res.Outcome != schema.Succeeded {
			t.Fatalf("Run: %+v", res)
		}
		r := <-got
		if r.path != "/base/2015-03-31/functions/resize%3Alive/invocations" || r.body != `{"a":1}` || r.header.Get("X-Amz-Invocation-Type") != kind {
			t.Errorf("%s: got %s of %s, %s", invocation, r.path, r.body, r.header)
		}
		if !strings.HasPrefix(r.header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/") || r.header.Get("X-Amz-Security-Token") != "token-s3cret" {
			t.Errorf("%s: who calls is %v", invocation, r.header)
		}
		text, err := base64.StdEncoding.DecodeString(r.header.Get("X-Amz-Client-Context"))
		if invocation == "async" {
			if len(text) != 0 {
				t.Errorf("async: the context is %s, want none: AWS passes none on", text)
			}
			continue
		}
		var said struct {
			Custom map[string]string `json:"custom"`
		}
		if err != nil || json.Unmarshal(text, &said) != nil {
			t.Fatalf("the context is %s, %v", text, err)
		}
		for name, want := range map[string]string{
			"carillon-run-id": call.Run.String(), "carillon-attempt": "3", "carillon-fence": "1790000000000042", "idempotency-key": call.Run.String(),
			"carillon-due-at": "2026-11-21T09:00:00.250Z",
		} {
			if said.Custom[name] != want {
				t.Errorf("the context says %s %q, want %q", name, said.Custom[name], want)
			}
		}
	}
	call := invoke(s.URL, "sync")
	call.Payload = nil
	if res := l.Run(t.Context(), call); res.Outcome != schema.Succeeded {
		t.Fatalf("Run without a payload: %+v", res)
	}
	if r := <-got; r.body != "" {
		t.Errorf("without a payload %q was sent", r.body)
	}
}

// A function, or who stands for it, decides neither how much memory it takes nor where a call goes.
func TestLambdaIsGuardedAndBounded(t *testing.T) {
	large := serve(t, asLambda(200, nil, strings.Repeat("x", 3000)))
	res := NewLambda(newHTTP(t, HTTPConfig{MaxOutput: 1000, MaxBody: 2000})).Run(t.Context(), invoke(large.URL, "sync"))
	if res.Outcome != schema.Succeeded || len(res.Output) != 1000 || !res.OutputCut {
		t.Errorf("a large answer: got %s %q, %d bytes, cut %t; want a success of 1000 that is cut", res.Outcome, res.Error, len(res.Output), res.OutputCut)
	}
	l := NewLambda(newHTTP(t, HTTPConfig{}))
	if res := l.Run(t.Context(), invoke("http://169.254.169.254/", "sync")); res.Outcome != schema.Failed || !res.Final || res.Error != "169.254.169.254: address is not allowed" {
		t.Errorf("a denied endpoint: got %+v", res)
	}
	if res := l.Run(t.Context(), invoke("http://127.0.0.1:1/", "sync")); res.Outcome != schema.Failed || res.Final || res.Error != "connection refused" {
		t.Errorf("an endpoint where nobody listens: got %+v", res)
	}
	// AWS's own, where the endpoint is not stated.
	n := &names{answers: map[string][][]string{"lambda.eu-central-1.amazonaws.com": {{"10.11.12.13"}}}}
	own := NewLambda(newHTTP(t, HTTPConfig{resolver: n.resolver()}))
	if res := own.Run(t.Context(), invoke("", "sync")); res.Error != "lambda.eu-central-1.amazonaws.com: address is not allowed" {
		t.Errorf("AWS's endpoint: got %+v", res)
	}
	for name, values := range map[string]auth.Values{"no secret": nil, "no credentials": {"aws": {[]byte(secretText)}}} {
		call := invoke(large.URL, "sync")
		call.Values = values
		if res := l.Run(t.Context(), call); res.Outcome != schema.Failed || res.Final || !res.Uncalled || !strings.HasPrefix(res.Error, "not called: ") || strings.Contains(res.Error, "s3cret") {
			t.Errorf("%s: got %+v, want a failure that may be mended", name, res)
		}
	}
	if res := l.Run(t.Context(), callTo(large.URL)); !res.Final || res.Outcome != schema.Failed {
		t.Errorf("Run of another kind of task: got %+v", res)
	}
}

func TestLambdaEndsWithItsAttempt(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	})
	l := NewLambda(newHTTP(t, HTTPConfig{}))
	for cause, want := range map[error]schema.Outcome{ErrTimeout: schema.TimedOut, ErrCancelled: schema.Cancelled} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(cause)
		}()
		if res := l.Run(ctx, invoke(s.URL, "sync")); res.Outcome != want {
			t.Errorf("Run that is ended by %v: got %+v, want %s", cause, res, want)
		}
	}
}
