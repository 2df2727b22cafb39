package console

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Proxy stands between a browser and a node, as load balancers and gateways do. What it does can be
// changed while a page is open.
type Proxy struct {
	// URL is where browsers find the node: the origin of the proxy and its path, without a slash at
	// the end.
	URL string

	path string // below which the node lies: "" or "/ops/carillon"

	mu      sync.Mutex // guards what follows
	node    *url.URL
	fault   Fault
	refused int
	answers map[string]string // JSON that is answered instead of asking the node, by method and path
}

// A Fault is what a proxy does instead of asking the node.
type Fault int

// The faults.
const (
	NoFault Fault = iota
	// StoreDown answers everything below /v1 but who one is as a node whose store cannot be reached.
	StoreDown
	// NodeDown answers everything below /v1 as a load balancer does that has no node: 503, and HTML.
	NodeDown
	// Hangs takes requests below /v1 and never answers.
	Hangs
)

// StartProxy starts a proxy for a node, which ends with the test. path is below which it is to lie, ""
// for the root.
func StartProxy(t testing.TB, node, path string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for a proxy: %v", err)
	}
	p := &Proxy{URL: "http://" + l.Addr().String() + path, path: path}
	p.Switch(t, node)
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return p
}

// Console returns the address of the page.
func (p *Proxy) Console() string { return p.URL + "/console/" }

// Switch has another node behind the proxy.
func (p *Proxy) Switch(t testing.TB, node string) {
	t.Helper()
	u, err := url.Parse(node)
	if err != nil {
		t.Fatalf("read the address of a node: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = u
}

// Have has the proxy do this from now on.
func (p *Proxy) Have(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Answer has the proxy answer requests of a method and path below its own with JSON, as a node
// would.
func (p *Proxy) Answer(method, path, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == nil {
		p.answers = make(map[string]string)
	}
	p.answers[method+" "+path] = text
}

// Refused returns how many requests were not let through.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// storeDown is what a node answers whose store cannot be reached.
const storeDown = `{"type":"urn:carillon:problem:unavailable","title":"The store cannot be reached","status":503,` +
	`"detail":"Nothing was changed. Try again."}`

// ServeHTTP answers browsers.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	below, ok := strings.CutPrefix(r.URL.Path, p.path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	p.mu.Lock()
	node, fault := p.node, p.fault
	api := strings.HasPrefix(below, "/v1/")
	if fault == StoreDown && below == "/v1/whoami" || !api {
		fault = NoFault
	}
	if fault != NoFault {
		p.refused++
	}
	text, stated := p.answers[r.Method+" "+below]
	p.mu.Unlock()
	if stated && fault == NoFault {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text)) // who has gone needs none
		return
	}
	switch fault {
	case StoreDown:
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(storeDown)) // who has gone needs none
	case NodeDown:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("<html><body><h1>503 Service Unavailable</h1>No server is available.</body></html>"))
	case Hangs:
		<-r.Context().Done()
	default:
		(&httputil.ReverseProxy{
			Rewrite: func(out *httputil.ProxyRequest) {
				out.SetURL(node)
				out.Out.URL.Path = below
				out.Out.URL.RawPath = ""
				out.Out.Host = node.Host
				out.SetXForwarded()
			},
			FlushInterval: -1,
			// A node that is away is what 502 is for; the log is not where to say so.
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, err.Error(), http.StatusBadGateway)
			},
		}).ServeHTTP(w, r)
	}
}
