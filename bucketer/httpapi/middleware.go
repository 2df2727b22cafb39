package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
)

const (
	tenantHeader  = "Carillon-Tenant"
	keyHeader     = "Idempotency-Key"
	defaultTenant = "default"
	importPath    = "/v1/imports"
)

// bodyBudgetKey is the key of the *bodyBudget in the context of a request.
type bodyBudgetKey struct{}

// middleware is what runs before each handler.
type middleware struct{ *Server }

// observe counts, times and logs requests.
func (s middleware) observe(c *gin.Context) {
	start := time.Now()
	s.metrics.inFlight.Inc()
	var endSpan func(status int, location string)
	if s.config.Trace != nil && strings.HasPrefix(c.FullPath(), "/v1/") {
		endSpan = s.config.Trace(c.Request, c.FullPath())
	}
	defer func() {
		s.metrics.inFlight.Dec()
		if endSpan != nil {
			endSpan(c.Writer.Status(), c.Writer.Header().Get("Location"))
		}
		route, took := c.FullPath(), time.Since(start)
		method := c.Request.Method
		if route == "" { // the method may be any word, so it is not a label
			route, method = "none", "any"
		}
		s.metrics.requests.WithLabelValues(route, method, strconv.Itoa(c.Writer.Status())).Inc()
		if route != importPath {
			s.metrics.seconds.WithLabelValues(route, method).Observe(took.Seconds())
		}
		s.log.Debug("answered", "method", c.Request.Method, "path", c.Request.URL.Path, "status", c.Writer.Status(),
			"bytes", c.Writer.Size(), "took", took, "tenant", tenantOf(c.Request.Context()))
	}()
	c.Next()
}

// recover answers 500 if what comes after it panics.
func (s middleware) recover(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		s.log.Error("request panicked", "method", c.Request.Method, "route", c.FullPath(), "err", v, "stack", string(debug.Stack()))
		if c.Writer.Written() {
			// half of the answer was sent: the caller must see that it was cut
			panic(http.ErrAbortHandler)
		}
		s.refuse(c, internal.problem(""))
	}()
	c.Next()
}

// bound bounds the time of a request. Imports have bounds of their own.
func (s middleware) bound(c *gin.Context) {
	rc := http.NewResponseController(c.Writer)
	if c.FullPath() == importPath {
		// Before anything is refused: the server would otherwise wait for the body before it sends
		// the refusal. The connection serves no other request, since a body may be left over, and
		// that is known only after the header of the answer has gone: in full duplex net/http meets
		// the end of such a body after the handler, begins to listen for the caller's leaving, and
		// panics when it reads the next request.
		_ = rc.EnableFullDuplex() // HTTP/2 has no need of it; recorders of tests do without
		c.Header("Connection", "close")
		c.Next()
		_ = rc.SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
		return
	}
	// Recorders of tests have no deadlines; a real connection has.
	_ = rc.SetWriteDeadline(time.Now().Add(s.config.BodyTimeout + s.config.RequestTimeout + s.config.WriteTimeout))
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, request.MaxBody)
	allowed := &bodyBudget{span: s.config.BodyTimeout, memory: &s.bodies}
	defer allowed.release()
	ctx := context.WithValue(c.Request.Context(), bodyBudgetKey{}, allowed)
	ctx, cancel := context.WithTimeout(ctx, s.config.BodyTimeout+s.config.RequestTimeout)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
	// for what is left of an unread body
	_ = rc.SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
}

// host refuses a request for a name that is not the node's (DNS rebinding). A page may make its own
// name lead to this machine, and the browser would then let it read and write as if it came from
// here.
func (s middleware) host(c *gin.Context) {
	if s.config.Host != nil && strings.HasPrefix(c.FullPath(), "/v1/") && !s.config.Host(hostname(c.Request.Host)) {
		s.refuse(c, plain(http.StatusForbidden, "The Host header names another machine."))
		return
	}
	c.Next()
}

// hostname returns the host of a Host header without the port, and without the brackets of an IPv6
// address.
func hostname(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
}

// LocalHost returns a Config.Host that accepts localhost, IP addresses, no name at all, and names;
// case does not matter. No browser takes a page of an IP address for one of a name.
func LocalHost(names ...string) func(host string) bool {
	names = append([]string{"", "localhost"}, names...)
	return func(host string) bool {
		if _, err := netip.ParseAddr(host); err == nil {
			return true
		}
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
	}
}

// form refuses what may be read in two ways, and what a page of another site makes a browser send:
// without keys, reaching the node is all that is needed. A name that ends in [] is of a list, such
// as name[] of /metrics; those of our lists are in the document.
func (s middleware) form(c *gin.Context) {
	if err := s.crossOrigin.Check(c.Request); err != nil {
		s.refuse(c, plain(http.StatusForbidden, "A browser sent this for a page of another origin."))
		return
	}
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	var faults []bucketer.Fault
	if err != nil {
		faults = append(faults, bucketer.Fault{Location: "query", Message: "is not a form-encoded query"})
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch several := s.several[c.FullPath()][name]; {
		case len(query[name]) <= 1 || len(name) > maxParameter || strings.HasSuffix(name, "[]"):
		case !several:
			faults = append(faults, bucketer.Fault{Location: "query." + name, Message: "is there more than once"})
		case slices.Contains(query[name], ""):
			faults = append(faults, bucketer.Fault{Location: "query." + name, Message: "is there more than once, and empty once"})
		}
	}
	if len(faults) > 0 {
		s.refuse(c, invalid(faults...))
		return
	}
	c.Next()
}

// findLists notes which parameters may be there more than once. It comes after all operations.
func (s middleware) findLists() {
	s.several = make(map[string]map[string]bool)
	for path, item := range s.api.OpenAPI().Paths {
		if item.Get == nil {
			continue
		}
		for _, p := range item.Get.Parameters {
			if p.In == "query" && p.Explode != nil && *p.Explode {
				route := strings.NewReplacer("{", ":", "}", "").Replace(path)
				if s.several[route] == nil {
					s.several[route] = make(map[string]bool)
				}
				s.several[route][p.Name] = true
			}
		}
	}
}

// maxParameter bounds the name of a parameter that is repeated in an answer, in bytes. Longer names
// are unknown anyway.
const maxParameter = 63

// refuse answers with a problem, and nothing after it.
func (s *Server) refuse(c *gin.Context, p *Problem) {
	c.Abort()
	if p.Status == http.StatusUnauthorized && s.deps.LogIn != nil {
		p.LogIn = LogInPath
	}
	for name, values := range p.GetHeaders() {
		c.Writer.Header()[name] = values
	}
	c.Header("Content-Type", problemJSON)
	c.Status(p.Status)
	if err := json.NewEncoder(c.Writer).Encode(p); err != nil {
		s.log.Debug("answer with a problem", "err", err)
	}
}

// fail turns the error of a request into a problem, and logs what the caller does not see.
func (s *Server) fail(ctx context.Context, what string, err error) error {
	p := problemOf(err)
	if callerOf(ctx).reads {
		p = p.ofRead()
	}
	switch {
	case forwardingOf(ctx).refused(p, err):
		s.log.Debug("request is sent on", "act", what, "tenant", tenantOf(ctx), "err", err)
	case p.Status == http.StatusInternalServerError:
		s.log.Error("request failed", "act", what, "tenant", tenantOf(ctx), "err", err)
	case p.Status == http.StatusServiceUnavailable:
		s.log.Warn("request refused", "act", what, "tenant", tenantOf(ctx), "err", err)
	}
	return p
}
