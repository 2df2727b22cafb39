package target

import (
	"bytes"
	"context"
	"crypto/md5" // #nosec G501 -- as SQS has it
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// manner is how the callee of a contract behaves.
type manner int

const (
	takes     manner = iota // it does what it is asked
	refuses                 // for good
	ails                    // it cannot, just now
	hangs                   // it hears, and never answers
	floods                  // it answers more than anybody wants
	gossips                 // it refuses, and says back the secret that it was called with
	redirects               // it sends the caller to an address that is not allowed
)

// rig is a target, and an attempt whose callee behaves in a manner.
type rig struct {
	target Target
	call   Call
	asked  chan string // what each call said that came
	conns  func() int  // how many connections came
}

// contract is a kind of work that keeps the contract of Target.
type contract struct {
	kind   string
	open   func(t *testing.T, m manner, c HTTPConfig) rig
	output string            // what a success says, a pattern
	lacks  map[string]string // the cases that this kind has not, and why
}

const (
	noSecrets     = "the kind names no secret"
	noAddresses   = "no tenant names an address"
	noConnections = "it has no connections of its own"
)

// contracts are all kinds. Further ones are added by files of one system only.
var contracts = []contract{
	{kind: "http", output: `^taken$`, open: func(t *testing.T, m manner, c HTTPConfig) rig {
		return overHTTP(t, m, c, func(h *HTTP) Target { return h }, func(url string) schema.Work {
			return schema.Work{HTTP: &schema.HTTPTarget{URL: url, Auth: &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "aws"}}}}
		}, plainly)
	}},
	{kind: "lambda", output: `^taken$`, open: func(t *testing.T, m manner, c HTTPConfig) rig {
		return overHTTP(t, m, c, func(h *HTTP) Target { return NewLambda(h) }, func(url string) schema.Work {
			return schema.Work{Lambda: &schema.LambdaTarget{Function: "f", Region: "eu-central-1", Credentials: "aws", Endpoint: url}}
		}, plainly)
	}},
	{kind: "sqs", output: `^{"message_id":"m-1"}$`, open: func(t *testing.T, m manner, c HTTPConfig) rig {
		return overHTTP(t, m, c, newMessages, func(url string) schema.Work {
			return schema.Work{SQS: &schema.SQSTarget{QueueURL: url + "/123456789012/jobs", AWSAccess: accessTo(url)}}
		}, asSQS)
	}},
	{kind: "sns", output: `^{"message_id":"m-1"}$`, open: func(t *testing.T, m manner, c HTTPConfig) rig {
		return overHTTP(t, m, c, newMessages, func(url string) schema.Work {
			return schema.Work{SNS: &schema.SNSTarget{TopicARN: "arn:aws:sns:eu-central-1:123456789012:jobs", AWSAccess: accessTo(url)}}
		}, asSNS)
	}},
	{kind: "eventbridge", output: `^{"event_id":"e-1"}$`, open: func(t *testing.T, m manner, c HTTPConfig) rig {
		return overHTTP(t, m, c, newMessages, func(url string) schema.Work {
			return schema.Work{EventBridge: &schema.EventBridgeTarget{Source: "billing", DetailType: "due", AWSAccess: accessTo(url)}}
		}, asEventBridge)
	}},
	{kind: "step_functions", output: `^{"execution_arn":"arn:x","name":"[0-9a-f-]{36}"}$`, open: func(t *testing.T, m manner, c HTTPConfig) rig {
		return overHTTP(t, m, c, newMessages, func(url string) schema.Work {
			return schema.Work{StepFunctions: &schema.StepFunctionsTarget{StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:jobs", AWSAccess: accessTo(url)}}
		}, asStepFunctions)
	}},
	{
		kind: "nats", output: `^taken$`, lacks: map[string]string{
			"a secret that is missing": noSecrets, "a secret that is said back": noSecrets, "an address that is not allowed": noAddresses, "a redirect": noAddresses, "connections are kept": noConnections,
		},
		open: func(t *testing.T, m manner, c HTTPConfig) rig {
			return overNATS(t, m, func(r queue.Requester) Target { return NewNATS(NATSConfig{Requester: r, MaxOutput: c.MaxOutput}) },
				schema.Work{NATS: &schema.NATSTarget{Subject: "work.x"}}, map[manner]queue.Reply{
					takes: {Body: []byte("taken")}, refuses: {Headers: map[string]string{"Carillon-Error": "no", "Carillon-Error-Final": "true"}},
					ails: {Headers: map[string]string{"Carillon-Error": "no"}}, floods: {Body: make([]byte, 1<<20)},
				})
		},
	},
	{
		kind: "jetstream", output: `^{"stream":"ORDERS","sequence":7}$`, lacks: map[string]string{
			"a secret that is missing": noSecrets, "a secret that is said back": noSecrets, "an address that is not allowed": noAddresses, "a redirect": noAddresses, "connections are kept": noConnections,
		},
		open: func(t *testing.T, m manner, _ HTTPConfig) rig {
			return overNATS(t, m, func(r queue.Requester) Target { return NewJetStream(r) },
				schema.Work{JetStream: &schema.JetStreamTarget{Subject: "orders.due"}}, map[manner]queue.Reply{
					takes: {Body: []byte(`{"stream":"ORDERS","seq":7}`)}, refuses: {Body: []byte(`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"ORDERS","seq":0}`)},
					ails:   {Body: []byte(`{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"ORDERS","seq":0}`)},
					floods: {Body: []byte(`{"error":{"code":400,"description":"` + strings.Repeat("x", 1<<20) + `"}}`)},
				})
		},
	},
	{
		kind: "email", output: ``, lacks: map[string]string{
			"the whole payload": "the payload is a mail", "a redirect": "SMTP has none", "connections are kept": "a mail is one conversation", "an answer without end": "its lines are bounded (TestEmail…)",
		},
		open: overSMTP,
	},
}

func newMessages(h *HTTP) Target { return NewAWS(h) }

// accessTo is who calls a stand-in of AWS.
func accessTo(url string) schema.AWSAccess {
	return schema.AWSAccess{Region: "eu-central-1", Credentials: "aws", Endpoint: url}
}

// answering is how a service answers a request.
type answering func(m manner, body []byte) (status int, answer string)

func plainly(m manner, _ []byte) (int, string) {
	return map[manner]int{takes: 200, refuses: 400, ails: 503, floods: 200, gossips: 400}[m], map[manner]string{takes: "taken", gossips: "no: " + secretText, floods: strings.Repeat("x", 1<<20)}[m]
}

// inJSON answers as services of AWS do that speak JSON.
func inJSON(m manner, taken string) (int, string) {
	switch m {
	case refuses:
		return 400, `{"__type":"com.amazonaws#ValidationException","message":"no"}`
	case ails:
		return 400, `{"__type":"com.amazonaws#ThrottlingException","message":"later"}`
	case gossips:
		return 403, `{"__type":"com.amazonaws#` + secretText + `","message":"` + secretText + `"}`
	case floods:
		return 200, `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	}
	return 200, taken
}

func asSQS(m manner, body []byte) (int, string) {
	var sent struct{ MessageBody string }
	_ = json.Unmarshal(body, &sent)
	sum := md5.Sum([]byte(sent.MessageBody)) // #nosec G401 -- as SQS has it
	return inJSON(m, fmt.Sprintf(`{"MessageId":"m-1","MD5OfMessageBody":"%s"}`, hex.EncodeToString(sum[:])))
}

func asSNS(m manner, _ []byte) (int, string) {
	fault := func(status int, code string) (int, string) {
		return status, `<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type><Code>` + code + `</Code><Message>` + code + `</Message></Error></ErrorResponse>`
	}
	switch m {
	case refuses:
		return fault(400, "InvalidParameter")
	case ails:
		return fault(400, "Throttled")
	case gossips:
		return fault(403, secretText)
	case floods:
		return 200, `<PublishResponse><x>` + strings.Repeat("x", 1<<20) + `</x></PublishResponse>`
	}
	return 200, `<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult><MessageId>m-1</MessageId></PublishResult></PublishResponse>`
}

func asEventBridge(m manner, _ []byte) (int, string) {
	switch m {
	case refuses:
		return 200, `{"FailedEntryCount":1,"Entries":[{"ErrorCode":"NotAuthorizedForSourceException","ErrorMessage":"no"}]}`
	case ails:
		return 200, `{"FailedEntryCount":1,"Entries":[{"ErrorCode":"InternalFailure","ErrorMessage":"no"}]}`
	}
	return inJSON(m, `{"FailedEntryCount":0,"Entries":[{"EventId":"e-1"}]}`)
}

func asStepFunctions(m manner, _ []byte) (int, string) {
	if m == ails {
		return 400, `{"__type":"com.amazonaws.swf.service.v2.model#ExecutionLimitExceeded","message":"later"}`
	}
	return inJSON(m, `{"executionArn":"arn:x","startDate":1.79E9}`)
}

// overHTTP makes the rig of a kind that is called by HTTP.
func overHTTP(t *testing.T, m manner, c HTTPConfig, with func(*HTTP) Target, work func(url string) schema.Work, answer answering) rig {
	t.Helper()
	r := rig{asked: make(chan string, 100)}
	var conns atomic.Int64
	r.conns = func() int { return int(conns.Load()) }
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		said := fmt.Sprintf("%v %s", q.Header, body)
		if form, err := url.QueryUnescape(string(body)); err == nil {
			said += form
		}
		if context, err := base64.StdEncoding.DecodeString(q.Header.Get("X-Amz-Client-Context")); err == nil {
			said += string(context)
		}
		if strings.Contains(said, secretText) {
			said += " (secret)"
		}
		r.asked <- said
		switch m {
		case hangs:
			<-q.Context().Done()
			return
		case redirects:
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		status, text := answer(m, body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	r.target = with(newHTTP(t, c))
	r.call = callTo("")
	r.call.Work = work(s.URL).InForce()
	r.call.Values = auth.Values{"aws": {[]byte(credentialsText)}}
	if r.call.Work.HTTP != nil {
		r.call.Values = auth.Values{"aws": {[]byte(secretText)}}
	}
	return r
}

// overNATS makes the rig of a kind that is called by NATS.
func overNATS(t *testing.T, m manner, with func(queue.Requester) Target, work schema.Work, replies map[manner]queue.Reply) rig {
	t.Helper()
	r := rig{asked: make(chan string, 100)}
	r.target = with(asker(func(ctx context.Context, _ string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
		if err := queue.CheckHeaders(headers); err != nil {
			return err
		}
		r.asked <- fmt.Sprintf("%v %s", headers, body)
		if m == hangs || hear(replies[m]) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}))
	r.call = callTo("")
	r.call.Work = work.InForce()
	return r
}

// overSMTP makes the rig of mails.
func overSMTP(t *testing.T, m manner, c HTTPConfig) rig {
	t.Helper()
	r := rig{asked: make(chan string, 100)}
	b := newMailbox(t, schema.StartTLS)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	b.user, b.password = "me", secretText
	b.refuse = func(step, _ string) error {
		if step != "data" {
			return nil
		}
		r.asked <- ""
		switch m {
		case refuses:
			return &smtp.SMTPError{Code: 550, Message: "no"}
		case ails:
			return &smtp.SMTPError{Code: 451, Message: "later"}
		case gossips:
			return &smtp.SMTPError{Code: 550, Message: "no: " + secretText}
		case hangs:
			<-ended
		}
		return nil
	}
	r.target = NewEmail(newHTTP(t, c), MailServer{})
	r.call = mailTo(b, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, v auth.Values) {
		to.Server.Username, to.Server.PasswordSecret, v["pw"] = "me", "pw", [][]byte{[]byte(secretText)}
	})
	return r
}

// deadline ends an attempt of a contract that does not end: no case but that of the time-out waits
// for it.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), motoPatience, ErrTimeout)
	t.Cleanup(cancel)
	return ctx
}

// TestEveryKindKeepsTheContract: whatever an attempt calls, it ends in the same ways.
func TestEveryKindKeepsTheContract(t *testing.T) {
	cases := map[string]func(t *testing.T, k contract){
		"a success": func(t *testing.T, k contract) {
			r := k.open(t, takes, HTTPConfig{})
			res := r.target.Run(deadline(t), r.call)
			if res.Outcome != schema.Succeeded || res.Error != "" || res.Health() != Healthy || !regexp.MustCompile(k.output).Match(res.Output) {
				t.Fatalf("Run: got %+v %s, want a success that says %s", res, res.Output, k.output)
			}
			if said := <-r.asked; k.kind != "email" && !strings.Contains(said, r.call.Run.String()) {
				t.Errorf("the callee was told %s, want the run's id in it", said)
			}
		},
		"a refusal is final": func(t *testing.T, k contract) {
			r := k.open(t, refuses, HTTPConfig{})
			res := r.target.Run(deadline(t), r.call)
			if res.Outcome != schema.Failed || !res.Final || res.Error == "" || res.Health() == Unhealthy || res.Uncalled {
				t.Errorf("Run: got %+v %s, want a final failure of a healthy target", res, res.Output)
			}
		},
		"a callee that cannot just now": func(t *testing.T, k contract) {
			r := k.open(t, ails, HTTPConfig{})
			res := r.target.Run(deadline(t), r.call)
			if res.Outcome != schema.Failed || res.Final || res.Error == "" || res.Health() != Unhealthy {
				t.Errorf("Run: got %+v %s, want a failure that is tried again, of an unhealthy target", res, res.Output)
			}
		},
		"an attempt ends with its context": func(t *testing.T, k contract) {
			for cause, want := range map[error]Result{
				ErrTimeout: {Outcome: schema.TimedOut}, ErrCancelled: {Outcome: schema.Cancelled}, ErrStopped: {Outcome: schema.Failed, Stopped: true},
			} {
				r := k.open(t, hangs, HTTPConfig{})
				ctx, end := context.WithCancelCause(t.Context())
				go func() {
					<-r.asked
					end(cause)
				}()
				res := r.target.Run(ctx, r.call)
				end(nil)
				if res.Outcome != want.Outcome || res.Stopped != want.Stopped || (res.Health() == Unhealthy) != (want.Outcome == schema.TimedOut) {
					t.Errorf("Run that is ended by %v: got %+v, want %+v", cause, res, want)
				}
			}
		},
		"an address that is not allowed": func(t *testing.T, k contract) {
			r := k.open(t, takes, HTTPConfig{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/32")}})
			res := r.target.Run(deadline(t), r.call)
			if res.Outcome != schema.Failed || !res.Final || !strings.Contains(res.Error, errDenied.Error()) || res.Health() == Unhealthy || len(r.asked) > 0 {
				t.Errorf("Run: got %+v, and %d calls came; want that it is denied", res, len(r.asked))
			}
		},
		"a redirect": func(t *testing.T, k contract) {
			r := k.open(t, redirects, HTTPConfig{})
			res := r.target.Run(deadline(t), r.call)
			if res.Outcome != schema.Failed || !strings.Contains(res.Error, errDenied.Error()) && !strings.Contains(res.Error, "307") {
				t.Errorf("Run: got %+v, want that it is not followed to an address that is denied", res)
			}
		},
		"a secret that is missing": func(t *testing.T, k contract) {
			r := k.open(t, takes, HTTPConfig{})
			r.call.Values = nil
			res := r.target.Run(deadline(t), r.call)
			if res.Outcome != schema.Failed || res.Final || !res.Uncalled || !strings.HasPrefix(res.Error, "not called: ") || len(r.asked) > 0 || res.Health() != UnknownHealth {
				t.Errorf("Run: got %+v, and %d calls came; want a failure that may be mended", res, len(r.asked))
			}
		},
		"a secret that is said back": func(t *testing.T, k contract) {
			var log bytes.Buffer
			r := k.open(t, gossips, HTTPConfig{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			res := r.target.Run(deadline(t), r.call)
			if text := fmt.Sprintf("%+v %s %s", res, res.Output, &log); strings.Contains(text, secretText) || res.Outcome != schema.Failed || len(r.asked) != 1 {
				t.Errorf("Run: got %s, want a failure that holds no secret", text)
			}
		},
		"the whole payload": func(t *testing.T, k contract) {
			r := k.open(t, takes, HTTPConfig{})
			const end = `the end"}`
			r.call.Payload = []byte(`{"a":"` + strings.Repeat("x", schema.MaxPayload-len(`{"a":"`+end)) + end)
			if res := r.target.Run(deadline(t), r.call); res.Outcome != schema.Succeeded {
				t.Fatalf("Run: got %+v, want a success", res)
			}
			if said := <-r.asked; !strings.Contains(said, "xxxthe end") {
				t.Errorf("the callee was told %d bytes without the payload's end", len(said))
			}
			r.call.Payload = nil
			if res := r.target.Run(deadline(t), r.call); res.Outcome != schema.Succeeded {
				t.Errorf("Run without a payload: got %+v, want a success", res)
			}
		},
		"an answer without end": func(t *testing.T, k contract) {
			r := k.open(t, floods, HTTPConfig{MaxOutput: 1000, MaxBody: 2000})
			res := r.target.Run(deadline(t), r.call)
			if len(res.Output) > 1000 || len(res.Error) > MaxError {
				t.Errorf("Run: kept %d bytes and an error of %d, want at most 1000 and %d", len(res.Output), len(res.Error), MaxError)
			}
			res.Memory.Release()
		},
		"connections are kept": func(t *testing.T, k contract) {
			r := k.open(t, takes, HTTPConfig{})
			made := 0
			for i := range 5 {
				if res := r.target.Run(deadline(t), r.call); res.Outcome != schema.Succeeded {
					t.Fatalf("Run: got %+v, want a success", res)
				}
				if n := r.conns(); i == 0 {
					made = n
				} else if n != made {
					t.Errorf("call %d made a connection: there are %d, and %d after the first", i, n, made)
				}
			}
		},
		"other work": func(t *testing.T, k contract) {
			r := k.open(t, takes, HTTPConfig{})
			r.call.Work = schema.Work{}
			if res := r.target.Run(deadline(t), r.call); res.Outcome != schema.Failed || !res.Final || len(r.asked) > 0 {
				t.Errorf("Run: got %+v, want a final failure", res)
			}
		},
	}
	for _, k := range contracts {
		for name, run := range cases {
			t.Run(k.kind+"/"+name, func(t *testing.T) {
				if why := k.lacks[name]; why != "" {
					t.Logf("not of this kind: %s", why)
					return
				}
				run(t, k)
			})
		}
		for name := range k.lacks {
			if cases[name] == nil {
				t.Errorf("%s lacks %q, which is no case", k.kind, name)
			}
		}
	}
}
