package request

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Bounds of what a run may be asked to do.
const (
	maxURL         = 2048    // bytes
	maxHeaders     = 32      // headers of an HTTP call
	maxHeaderBytes = 8 << 10 // their names and values together
	maxSubject     = 255     // bytes of a NATS subject
	maxArgs        = 64      // arguments of a script
	maxArg         = 4 << 10 // bytes of one of them
	// bytes of all of them as JSON, which is how rows hold them: see schema.MaxRow
	maxArgsText = 128 << 10
	minTimeout  = time.Millisecond // of one attempt
	maxAttempts = 100
	minBackoff  = time.Millisecond
	maxFactor   = 100
)

var (
	methods    = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	bodies     = []string{"payload", "none"}
	jitters    = []string{"full", "none"}
	guarantees = []string{string(schema.AtLeastOnce), string(schema.AtMostOnce), string(schema.EffectivelyOnce)}

	// ownHeaders are set by the executor, or by its HTTP client: a request may not state them.
	ownHeaders = []string{
		"connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "proxy-authorization",
		"proxy-connection", "te", "trailer", "traceparent", "tracestate", "transfer-encoding", "upgrade",
	}
	ownHeaderPrefixes = []string{"carillon-", "webhook-"}
)

// workFields are the fields of a request that say how a run is executed.
var workFields = []string{"http", "nats", "script", "lambda", "jetstream", "sqs", "sns", "eventbridge", "step_functions", "kafka", "timeout", "retry", "guarantee", "requires", "preemptible"}

// workReader gathers the fields of a request that say how a run is executed.
type workReader struct {
	d       *Decoder
	tenant  string
	work    schema.Work
	targets int     // how many calls there are
	limits  []int32 // the nodes of timeout, retry, guarantee, requires and preemptible
	retry   int32   // the node of retry.max_attempts, or 0
	preempt int32   // the node of preemptible, or 0

	urlSecret bool  // the URL of a call may be in a secret: see schema.HTTPTarget
	secretAt  int32 // where that is named, of the call that is being read; 0: it is not
}

// field takes member c of the request, and reports whether it is one of workFields.
func (w *workReader) field(name string, c int32) bool {
	switch name {
	case "http":
		w.targets++
		w.work.HTTP = w.http(c)
	case "nats":
		w.targets++
		w.work.NATS = w.nats(c)
	case "script":
		w.targets++
		w.work.Script = w.script(c)
	case "lambda":
		w.targets++
		w.work.Lambda = w.lambda(c)
	case "email":
		w.d.faultQuietly(c, "cannot be asked for: only notifications send mails")
	case "timeout":
		w.limits = append(w.limits, c)
		w.work.Timeout = w.d.duration(c, minTimeout, bucketer.MaxTimeout)
	case "retry":
		w.limits = append(w.limits, c)
		w.work.Retry = w.backoff(c)
	case "guarantee":
		w.limits = append(w.limits, c)
		w.work.Guarantee = schema.Guarantee(w.d.oneOf(c, guarantees))
	case "requires":
		w.limits = append(w.limits, c)
		w.work.Requires = requires(&w.d.fields, c)
	case "preemptible":
		w.limits, w.preempt = append(w.limits, c), c
		if w.work.Preemptible = w.d.is(c, kindTrue); !w.work.Preemptible && !w.d.is(c, kindFalse) {
			w.d.fault(c, "must be true or false")
		}
	default:
		return messageReader{w}.read(name, c)
	}
	return true
}

// finish checks what concerns several fields.
func (w *workReader) finish() {
	if w.targets > 1 {
		w.d.faultAt("body", "must have only one of "+kindsOfCall)
	}
	w.finishRetry()
	w.finishPreemptible()
}

// finishPreemptible checks that only work is preemptible that may be called a second time.
func (w *workReader) finishPreemptible() {
	if g := w.work.Guarantee; w.work.Preemptible && g != "" && g != schema.AtLeastOnce {
		w.d.fault(w.preempt, "must be false for %s: a run that is stopped starts again", g)
	}
}

// finishRetry checks that no more attempts are asked for than the guarantee allows.
func (w *workReader) finishRetry() {
	if r := w.work.Retry; w.work.Guarantee == schema.AtMostOnce && w.retry > 0 && r.MaxAttempts != 1 {
		w.d.fault(w.retry, "must be 1 for at_most_once")
	}
}

func (w *workReader) http(i int32) *schema.HTTPTarget {
	d, h, stated, auth := w.d, new(schema.HTTPTarget), false, int32(0)
	w.secretAt = 0
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "method":
			h.Method = d.oneOf(c, methods)
		case "url":
			stated = true
			if h.URL = d.string(c); d.is(c, kindString) {
				if what := urlFault(h.URL); what != "" {
					d.faultQuietly(c, "%s", what)
				}
			}
		case "headers":
			h.Headers = w.headers(c)
		case "body":
			h.Body = d.oneOf(c, bodies)
		case "signing_key":
			h.SigningKey = d.named(c)
		case "auth":
			auth = c
			h.Auth = w.auth(c)
		case "url_secret":
			if w.secretAt = c; !w.urlSecret {
				d.faultQuietly(c, "is not a field of http")
			}
			h.URLSecret = w.secretRef(c)
		default:
			d.faultQuietly(c, "is not a field of http")
		}
	}
	switch {
	case w.secretAt == 0 || !w.urlSecret:
		d.require(i, stated, "url")
	case stated:
		d.faultQuietly(w.secretAt, "must not be there together with url")
	}
	if auth > 0 {
		w.checkAuth(auth, h)
	}
	return h
}

// urlFault says what is wrong with the URL of an HTTP call, or "". It never repeats the URL, which
// may hold secrets.
func urlFault(text string) string {
	const form = "must be an absolute http or https URL"
	if len(text) > maxURL {
		return "must be at most " + strconv.Itoa(maxURL) + " bytes long"
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] == 0x7f {
			return form + " without spaces and control characters"
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Opaque != "", u.Hostname() == "":
		return form
	case u.User != nil:
		return "must not hold a user or a password"
	}
	if strings.HasSuffix(u.Host, ":") {
		return form + ", with a port number after the colon"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return form + ", with a port from 1 to 65535"
		}
	}
	return ""
}

// headers reads the headers of an HTTP call. Their values may be secrets: no fault repeats one.
func (w *workReader) headers(i int32) map[string]string {
	d, size := w.d, 0
	headers := make(map[string]string)
	var seen []string
	for c := range d.object(i) {
		name := string(d.doc.name(c))
		lower := strings.ToLower(name)
		switch {
		case !isToken(name):
			d.faultQuietly(c, "does not have a valid header name")
		case isOwnHeader(name):
			d.faultQuietly(c, "is set by Carillon and cannot be stated")
		case slices.Contains(seen, lower):
			d.faultQuietly(c, "is there twice: the case of a header name does not matter")
		}
		if len(seen) == maxHeaders {
			d.faultQuietly(i, "must be at most %d", maxHeaders)
			break
		}
		seen = append(seen, lower)
		if !d.is(c, kindString) {
			d.faultQuietly(c, "must be a string")
			continue
		}
		value := string(d.doc.stringOf(c))
		if !isHeaderValue(value) {
			d.faultQuietly(c, "must not hold control characters, such as line ends, nor outer spaces")
		}
		size += len(name) + len(value)
		headers[name] = value
	}
	if size > maxHeaderBytes {
		d.faultQuietly(i, "must be at most %d bytes, names and values together", maxHeaderBytes)
	}
	if len(headers) == 0 {
		return nil
	}
	return headers
}

// isOwnHeader reports whether a header is none that a request may state.
func isOwnHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(ownHeaders, name) || slices.ContainsFunc(ownHeaderPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// isHeaderValue reports whether s may be sent as the value of a header (RFC 9110, section 5.5).
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return s == strings.Trim(s, " \t")
}

func (w *workReader) nats(i int32) *schema.NATSTarget {
	d, n, stated := w.d, new(schema.NATSTarget), false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "subject":
			stated = true
			n.Subject = d.checked(c, subjectFault)
		default:
			d.faultQuietly(c, "is not a field of nats")
		}
	}
	d.require(i, stated, "subject")
	return n
}

// subjectFault says what is wrong with a subject that a tenant wants to send to, or "". Subjects of
// the NATS system, and those by which the parts of Carillon talk, are nobody's.
func subjectFault(subject string) string {
	if subject == "" || len(subject) > maxSubject {
		return "must be 1 to " + strconv.Itoa(maxSubject) + " bytes long"
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" {
			return "must not have an empty token between dots"
		}
		for i := range len(token) {
			if c := token[i]; c <= ' ' || c >= 0x7f || c == '*' || c == '>' {
				return "must be printable ASCII without spaces and wildcards"
			}
		}
	}
	first, _, _ := strings.Cut(subject, ".")
	if strings.HasPrefix(first, "$") || strings.HasPrefix(first, "_") || strings.EqualFold(first, "carillon") {
		return "must not start with '$', '_' or \"carillon.\": those are reserved"
	}
	return ""
}

func (w *workReader) script(i int32) *schema.ScriptTarget {
	d, s, stated := w.d, new(schema.ScriptTarget), false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "command":
			stated = true
			s.Command = d.named(c)
		case "args":
			s.Args = w.args(c)
		default:
			d.faultQuietly(c, "is not a field of script")
		}
	}
	d.require(i, stated, "command")
	switch {
	case d.Rules.Script == nil:
		d.faultQuietly(i, "cannot be used: script tasks are not enabled")
	case len(d.faults) == 0:
		if field, fault := d.Rules.Script(w.tenant, s); fault != "" {
			d.faultAt(d.doc.location(i)+"."+field, "%s", fault)
		}
	}
	return s
}

func (w *workReader) args(i int32) []string {
	d := w.d
	if !d.is(i, kindArray) {
		d.fault(i, "must be an array of strings")
		return nil
	}
	var args []string
	for c := range d.allMembers(i) {
		if len(args) == maxArgs {
			d.faultQuietly(i, "must be at most %d", maxArgs)
			return nil
		}
		arg := d.string(c)
		if len(arg) > maxArg || strings.IndexByte(arg, 0) >= 0 {
			d.faultQuietly(c, "must be at most %d bytes, without NUL", maxArg)
		}
		args = append(args, arg)
	}
	if text, err := json.Marshal(args); err != nil || len(text) > maxArgsText {
		d.faultQuietly(i, "must be at most %d bytes together, as JSON in which '<', '>' and '&' take 6 bytes each", maxArgsText)
	}
	return args
}

func (w *workReader) backoff(i int32) *schema.Retry {
	d, r := w.d, new(schema.Retry)
	last := int32(0) // the node of max
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "max_attempts":
			w.retry = c
			r.MaxAttempts = d.integer(c, 1, maxAttempts)
		case "initial":
			r.Initial = d.duration(c, minBackoff, bucketer.MaxBackoff)
		case "factor":
			if v, ok := d.float(c); ok && v >= 1 && v <= maxFactor {
				r.Factor = v
			} else if ok {
				d.fault(c, "must be from 1 to %d", maxFactor)
			}
		case "max":
			last = c
			r.Max = d.duration(c, minBackoff, bucketer.MaxBackoff)
		case "jitter":
			r.Jitter = d.oneOf(c, jitters)
		default:
			d.faultQuietly(c, "is not a field of retry")
		}
	}
	switch inForce := (schema.Work{Retry: r}).InForce().Retry; {
	case inForce.Max >= inForce.Initial:
	case last > 0:
		d.fault(last, "must not be less than initial (%s)", inForce.Initial)
	default:
		d.faultAt(d.doc.location(i)+".initial", "must not be more than max (%s)", inForce.Max)
	}
	return r
}
