package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/schema"
)

const (
	homeHeader   = "Carillon-Home"   // of an answer: the home of what it is about
	regionHeader = "Carillon-Region" // of an answer that another region gave: which
)

// Forward sends a request on to the region that serves what it is about (forward.Forwarder).
type Forward interface {
	// Knows reports whether requests can be sent to a region at all.
	Knows(region string) bool
	// Send sends a request and calls answer with what that region answers, or returns
	// forward.ErrUnreachable, forward.ErrBusy or forward.ErrUnknown.
	Send(ctx context.Context, region string, r forward.Request, answer func(*http.Response)) error
}

// # Writes that belong to another region
//
// A request is first dealt with here: what it is about is known only once it was read, and whether
// it may be written is decided where it would be. If that is refused because another region serves
// the home, nothing was taken in or changed, the refusal is held back, and the request goes on to
// that region as it came: the same path, body, tenant, key and preconditions. The answer is that
// region's. Header Carillon-Home names the home, and Carillon-Region who answered. If the home went
// away between two writes, the first may stand: a key, which the request sent again finds, or a
// mark that nobody needs.
//
// One hop: what another region sent on is refused. It is also refused, as 503 not-served that names
// home and region, if nobody knows who serves the home, or if no address of that region takes a
// connection. What was sent and not answered is 503 unknown.
//
// Reads and log-ins are not sent on: reads are answered by the copies of this region. Of an import
// those lines are sent on that lie at the home of another region (import_onward.go). What was
// written elsewhere a moment ago may therefore not be seen here yet. A change of what is not seen
// here yet, or not as it is now, may be answered here (404, 409) and not sent on: ask again, or ask
// the region of its home.
//
// The caller must have the right here and there. A session of the console goes on as the key that
// it stands for. A request that is sent on counts for the quotas of its tenant in both regions, so
// nobody who stays within them over all regions is refused. A caller known by a certificate, or
// by a log-in at the provider, is refused: only this region has seen it.

// forwardingKey is the key of the *forwarding in the context of a request.
type forwardingKey struct{}

// forwarding is what is known of a request that may be sent on. Its methods take nil: there are no
// regions.
type forwarding struct {
	header http.Header            // of the answer
	homes  *schema.Homes          // all there are
	sender Forward                // nil: it is not sent on, whatever comes
	body   []byte                 // as it was read
	to     *schema.NotServedError // where it goes instead of the answer; nil: the answer stands
	held   *Problem               // the answer that does not stand
}

func forwardingOf(ctx context.Context) *forwarding {
	f, _ := ctx.Value(forwardingKey{}).(*forwarding)
	return f
}

// read notes the body of the request.
func (f *forwarding) read(body []byte) {
	if f != nil {
		f.body = body
	}
}

// at notes in which shard lies what the answer is about.
func (f *forwarding) at(shard schema.Shard) {
	if f == nil {
		return
	}
	if home, ok := f.homes.Of(shard); ok {
		f.header.Set(homeHeader, home)
	}
}

// refused notes that the request is refused with p because of err, and reports whether it is sent
// on instead.
func (f *forwarding) refused(p *Problem, err error) bool {
	var home *schema.NotServedError
	if f == nil || !errors.As(err, &home) {
		return false
	}
	f.header.Set(homeHeader, home.Home)
	if f.to = elsewhere(f.sender, p.Kind(), err); f.to == nil {
		return false
	}
	f.held = p
	return true
}

// elsewhere returns where what is refused because of err, a problem of that kind, is sent on to;
// nil: the refusal stands.
func elsewhere(sender Forward, kind string, err error) *schema.NotServedError {
	var home *schema.NotServedError
	if sender == nil || kind != notServedKind || !errors.As(err, &home) || home.Region() == "" || home.Region() == home.Asked || !sender.Knows(home.Region()) {
		return nil
	}
	return home
}

// heldWriter is the writer of an answer that is thrown away once the request is to be sent on.
type heldWriter struct {
	gin.ResponseWriter
	f    *forwarding
	away http.Header // takes the headers of what is thrown away
}

// Unwrap returns the writer below: deadlines are set there.
func (w *heldWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Header implements http.ResponseWriter.
func (w *heldWriter) Header() http.Header {
	if w.f.to == nil {
		return w.ResponseWriter.Header()
	}
	if w.away == nil {
		w.away = make(http.Header)
	}
	return w.away
}

// WriteHeader implements http.ResponseWriter.
func (w *heldWriter) WriteHeader(status int) {
	if w.f.to == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

// WriteHeaderNow implements gin.ResponseWriter.
func (w *heldWriter) WriteHeaderNow() {
	if w.f.to == nil {
		w.ResponseWriter.WriteHeaderNow()
	}
}

// Write implements io.Writer.
func (w *heldWriter) Write(text []byte) (int, error) {
	if w.f.to == nil {
		return w.ResponseWriter.Write(text)
	}
	return len(text), nil
}

// WriteString implements io.StringWriter.
func (w *heldWriter) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

// forward sends a request on if it is refused because another region serves its home. Without
// regions it is not among the handlers.
func (s middleware) forward(c *gin.Context) {
	route := c.FullPath()
	if !strings.HasPrefix(route, "/v1/") || route == importPath || route == sessionPath {
		c.Next()
		return
	}
	f := &forwarding{header: c.Writer.Header(), homes: s.deps.Homes}
	reads := onlyReads(c.Request.Method, route)
	if id, err := schema.ParseJobID(c.Param("id")); err == nil { // or a run's: its shard stands at the same place
		f.at(id.Shard())
	} else if home, _ := f.homes.OfTenant(tenantOf(c.Request.Context())); !reads {
		f.header.Set(homeHeader, home)
	}
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), forwardingKey{}, f))
	// The other region does not know who calls.
	if reads || s.deps.Forward == nil || c.GetHeader(forward.Header) != "" || callerOf(c.Request.Context()).peer {
		c.Next()
		return
	}
	f.sender = s.deps.Forward
	writer := c.Writer
	func() {
		c.Writer = &heldWriter{ResponseWriter: writer, f: f}
		defer func() { c.Writer = writer }() // a panic is answered there
		c.Next()
	}()
	if f.to != nil {
		s.sendOn(c, f)
	}
}

// onwardHeaders are the headers of a request that go on with it. Cookies stay here, and whom the
// caller came by.
var onwardHeaders = []string{"Content-Type", "Accept", "User-Agent", keyHeader, "If-Match", "If-None-Match", tenantHeader, "Authorization", "Traceparent", "Tracestate"}

// backward are the headers of an answer that do not come back: they are of one connection, or of a
// cookie that only this region could read.
var backward = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Set-Cookie": true, "Date": true, "Server": true, "Alt-Svc": true, "Strict-Transport-Security": true,
}

// onward returns the headers with which a request goes on.
func (s middleware) onward(r *http.Request) http.Header {
	header := make(http.Header)
	for _, name := range onwardHeaders {
		if values := r.Header.Values(name); len(values) > 0 {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if callerOf(r.Context()).session { // the other region may have another key of cookies
		if key, err := s.sessions.keyOfSession(r, s.config.Now()); err == nil {
			header.Set("Authorization", "Bearer "+key)
		}
	}
	return header
}

// sendOn sends a request to the region that serves its home, and answers what that answers.
func (s middleware) sendOn(c *gin.Context, f *forwarding) {
	region := f.to.Region()
	r := forward.Request{Method: c.Request.Method, Target: c.Request.URL.RequestURI(), Header: s.onward(c.Request), Body: f.body}
	err := s.deps.Forward.Send(c.Request.Context(), region, r, func(answer *http.Response) {
		if answer.StatusCode >= http.StatusInternalServerError && !strings.HasPrefix(answer.Header.Get("Content-Type"), problemJSON) {
			s.log.Warn("request sent on: what stands before the region answered", "region", region, "status", answer.StatusCode)
			s.refuse(c, unknownThere(f.to))
			return
		}
		header := c.Writer.Header()
		for name, values := range answer.Header {
			if !backward[name] {
				header[name] = values
			}
		}
		header.Set(regionHeader, region)
		c.Status(answer.StatusCode)
		c.Writer.WriteHeaderNow()
		if _, err := io.Copy(c.Writer, answer.Body); err != nil {
			s.log.Warn("request sent on: the answer was cut", "region", region, "err", err)
			panic(http.ErrAbortHandler) // the caller must see it
		}
	})
	switch {
	case err == nil:
		return
	case errors.Is(err, forward.ErrBusy):
		s.refuse(c, problemOf(bucketer.ErrOverloaded))
	case errors.Is(err, forward.ErrUnreachable):
		s.refuse(c, unreachableThere(f.held))
	default:
		s.refuse(c, unknownThere(f.to))
	}
	s.log.Warn("request was not sent on, or not answered", "region", region, "home", f.to.Home, "tenant", tenantOf(c.Request.Context()), "err", err)
}

// unreachableThere is the refusal p of what was to be sent on.
func unreachableThere(p *Problem) *Problem {
	p.Detail += " It was to be sent on to that region, which cannot be reached from here now."
	return p
}

// unknownThere is the problem of a request that was sent on and not answered.
func unknownThere(home *schema.NotServedError) *Problem {
	p := problemOf(schema.ErrUnknown)
	p.Detail = "It was sent on to region " + home.Region() + ", which serves home " + home.Home + " and did not answer in time. Send it again with the same idempotency key, to either region."
	return p
}

// atHome returns deps with who notes the home of what was made or found put before what is called.
func atHome(deps Deps) Deps {
	if deps.Homes != nil {
		deps.Jobs = homedJobs{deps.Jobs}
		deps.Recurring = homedRecurring{deps.Recurring}
	}
	return deps
}

// homedJobs notes the home of a one-off job that was made.
type homedJobs struct{ Jobs }

func (h homedJobs) Submit(ctx context.Context, job bucketer.Job) (bucketer.Receipt, error) {
	r, err := h.Jobs.Submit(ctx, job)
	if err == nil {
		forwardingOf(ctx).at(r.Run.Shard())
	}
	return r, err
}

// homedRecurring notes the home of jobs that can have many runs where they are named, not given by
// id.
type homedRecurring struct{ Recurring }

func (h homedRecurring) CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (schema.Job, bool, error) {
	job, existing, err := h.Recurring.CreateJob(ctx, spec, key, bodyHash)
	if err == nil {
		forwardingOf(ctx).at(job.ID.Shard())
	}
	return job, existing, err
}

func (h homedRecurring) PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (schema.Job, bool, error) {
	job, created, err := h.Recurring.PutJob(ctx, tenant, name, ifMatch, spec)
	if err == nil {
		forwardingOf(ctx).at(job.ID.Shard())
	}
	return job, created, err
}

func (h homedRecurring) JobByName(ctx context.Context, tenant, name string) (schema.Job, error) {
	job, err := h.Recurring.JobByName(ctx, tenant, name)
	if err == nil {
		forwardingOf(ctx).at(job.ID.Shard())
	}
	return job, err
}

// durable refuses a durability that the cluster cannot give.
func durable(homes *schema.Homes, d schema.Durability, location string) error {
	if d == schema.DurableEverywhere && homes == nil {
		return invalid(bucketer.NoRegions(location))
	}
	return nil
}
