package target

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// Lambda is the Target of tasks of the kind lambda: it invokes a function of AWS Lambda, through
// the transport and the guard of HTTP tasks.
//
// An attempt is one request: the SDK's own retries are off. The payload is the function's input.
// The facts of the attempt are the client context (custom), which AWS passes on in synchronous
// invocations alone.
type Lambda struct{ http *HTTP }

// NewLambda returns a Lambda that calls as h does.
func NewLambda(h *HTTP) *Lambda { return &Lambda{http: h} }

// Run implements Target. A synchronous invocation succeeds if the function did; a function error is
// retried. An asynchronous one succeeds when it was accepted (202). Other answers count as those of
// HTTP tasks do, but for 409: the function is being changed, and is there again soon.
func (l *Lambda) Run(ctx context.Context, c Call) Result {
	t := c.Work.Lambda
	if t == nil {
		return Result{Outcome: schema.Failed, Error: "not a Lambda task", Final: true}
	}
	hide := auth.NewRedactor(c.Values)
	credentials, err := auth.Credentials(t.Credentials, c.Values)
	if err != nil {
		return Result{Outcome: schema.Failed, Error: "not called: " + err.Error(), Uncalled: true}
	}
	hide.Add(credentials.SecretAccessKey)
	hide.Add(credentials.SessionToken)
	call := &invocation{http: l.http, tenant: c.Tenant}
	res := l.invoke(ctx, &c, credentials, call)
	res.Output, res.OutputCut, res.Memory = hide.Bytes(call.body.kept, call.body.cut), call.body.cut, call.body.memory
	res.Error = hide.Text(res.Error)
	return res
}

// invoke makes the call and says how it ended, all but the output.
func (l *Lambda) invoke(ctx context.Context, c *Call, credentials aws.Credentials, call *invocation) Result {
	t := c.Work.Lambda
	options := lambda.Options{
		Region: t.Region, HTTPClient: call, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	}
	if t.Endpoint != "" {
		options.BaseEndpoint = aws.String(t.Endpoint)
	}
	in := &lambda.InvokeInput{FunctionName: aws.String(t.Function), Payload: c.Payload, InvocationType: types.InvocationTypeRequestResponse}
	if t.Invocation == schema.LambdaAsync {
		in.InvocationType = types.InvocationTypeEvent
	} else {
		in.ClientContext = aws.String(clientContext(c))
	}
	out, err := lambda.New(options).Invoke(ctx, in)
	if err == nil && out.FunctionError != nil {
		return Result{Outcome: schema.Failed, Status: call.status, Error: functionError(out.Payload)}
	}
	res := call.ended(ctx, c, err)
	if call.status == http.StatusConflict {
		res.Final = false
	}
	return res
}

// invocation makes the request that the SDK asks for, and keeps what is answered.
type invocation struct {
	http   *HTTP
	tenant string

	host       string
	status     int // of the answer; 0: there was none
	retryAfter string
	body       body
}

// Do implements the SDK's HTTPClient. The answer's body is bounded, and is in memory.
func (i *invocation) Do(r *http.Request) (*http.Response, error) {
	i.host = r.URL.Hostname()
	answer, err := i.http.transport.RoundTrip(r.WithContext(withDials(r.Context())))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	i.body, err = i.http.readBody(answer.Body, answer.ContentLength, i.http.budget.Grant(i.tenant))
	if err != nil {
		return nil, err
	}
	i.status, i.retryAfter = answer.StatusCode, answer.Header.Get("Retry-After")
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(i.body.kept)), int64(len(i.body.kept))
	return answer, nil
}

// ended says how a call of a service of AWS ended: err is what the SDK makes of the answer.
func (i *invocation) ended(ctx context.Context, c *Call, err error) Result {
	switch {
	case err == nil:
		return StatusResult(i.status, "", i.http.now())
	case ctx.Err() != nil:
		return Ended(ctx)
	case i.status == 0:
		return i.http.unanswered(ctx, c, i.host, err)
	case i.status >= 200 && i.status < 300:
		return Result{Outcome: schema.Failed, Status: i.status, Error: "the answer cannot be read"}
	}
	res := StatusResult(i.status, i.retryAfter, i.http.now())
	var api smithy.APIError
	if errors.As(err, &api) && isErrorCode(api.ErrorCode()) {
		res.Error += ": " + api.ErrorCode()
		if res.Final && isTransient(api.ErrorCode()) {
			res.Final, res.Ailing = false, true
		}
	}
	return res
}

// isTransient reports whether a code of AWS says that the service has too much to do just now, or
// has failed itself. Several services say so with status 400.
func isTransient(code string) bool {
	_, throttle := retry.DefaultThrottleErrorCodes[code]
	_, again := retry.DefaultRetryableErrorCodes[code]
	return throttle || again || slices.Contains(alsoTransient, code)
}

// alsoTransient are codes that the SDK does not count among those.
var alsoTransient = []string{"Throttled", "KMSThrottling", "KmsThrottled", "ExecutionLimitExceeded", "InternalError", "InternalException", "InternalFailure", "ServiceUnavailable"}

// clientContext returns the facts of an attempt as a function finds them: in the custom part of the
// context of its client.
func clientContext(c *Call) string {
	custom := statedFacts(c)
	text, _ := json.Marshal(map[string]any{"custom": custom}) // strings always can
	return base64.StdEncoding.EncodeToString(text)
}

// statedFacts returns the facts of an attempt by the names under which services of AWS pass them
// on.
func statedFacts(c *Call) map[string]string {
	f := factsOf(c)
	stated := map[string]string{
		"carillon-run-id": f.run, "carillon-job-id": f.job, "carillon-attempt": f.attempt, "carillon-fence": f.fence, "carillon-due-at": f.due,
		idempotencyKey: f.run, "traceparent": f.trace,
	}
	if f.nominal != "" {
		stated["carillon-nominal-at"] = f.nominal
	}
	return stated
}

// functionError says what a function that failed answered: its error's type and message.
func functionError(payload []byte) string {
	var said struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	text := "function error"
	if json.Unmarshal(payload, &said) != nil {
		return text
	}
	for _, part := range []string{said.Type, said.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	return Truncate(text, MaxError)
}

// isErrorCode reports whether s has the form of AWS's codes of errors, such as
// ResourceNotFoundException. The SDK says UnknownError where there is none.
func isErrorCode(s string) bool {
	return s != "" && s != "UnknownError" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_'
	})
}
