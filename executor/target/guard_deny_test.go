package target

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestGuardDeniesAnAddressOfAnAllowedRange(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	// A machine without a network has no such address.
	own, _ := net.InterfaceAddrs()
	outside := netip.Addr{}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
			outside = p.Addr()
		}
	}
	for name, c := range map[string]struct {
		deny  string
		table map[string]bool // address → denied
	}{
		"one address": {"127.0.0.1:6060", map[string]bool{
			"127.0.0.1:6060": true,
			"0.0.0.0:6060":   true, // reaches the loopback interface
			"[::]:6060":      true,
			"127.0.0.1:6061": false,
			"127.0.0.2:6060": false,
			"8.8.8.8:6060":   false,
		}},
		"one of IPv6": {"[::1]:6060", map[string]bool{"[::1]:6060": true, "[::1]:6061": false, "127.0.0.1:6060": false}},
		"every one of this machine": {"[::]:6060", map[string]bool{
			"127.0.0.1:6060":  true,
			"127.0.3.1:6060":  true,
			"[::1]:6060":      true,
			"0.0.0.0:6060":    true,
			"8.8.8.8:6060":    false,
			"127.0.0.1:6061":  false,
			"192.0.2.77:6060": false,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := newGuard(everything, nil, []netip.AddrPort{netip.MustParseAddrPort(c.deny)}, func() {})
			if err != nil {
				t.Fatal(err)
			}
			for to, want := range c.table {
				if got := g.control(t.Context(), "tcp", to, nil) != nil; got != want {
					t.Errorf("control(%s) with %s denied: refused %t, want %t", to, c.deny, got, want)
				}
			}
			if to := netip.AddrPortFrom(outside, 6060); outside.IsValid() && g.denies(to) != (name == "every one of this machine") {
				t.Errorf("denies(%s), an address of this machine, with %s denied: %t", to, c.deny, g.denies(to))
			}
		})
	}
}

func TestDeniedAddressIsNotCalled(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	for _, deny := range []bool{false, true} {
		c := HTTPConfig{AllowPrefixes: loopback}
		if deny {
			c.DenyAddresses = []netip.AddrPort{at}
		}
		res := newHTTP(t, c).Run(t.Context(), callTo(s.URL))
		if (res.Outcome == schema.Succeeded) == deny || deny && !res.Final {
			t.Errorf("Run with the address denied: %t: %+v", deny, res)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the server was called %d times, want once, by who may", n)
	}
}

// TestDeniedRangeIsNotCalled: there was no list of addresses that may not be called, so those of
// public or allowed ranges could not be denied.
func TestDeniedRangeIsNotCalled(t *testing.T) {
	port, open, closed := pair(t)
	n := &names{answers: map[string][][]string{"rebound.test": {{"127.0.0.1"}, {"127.0.0.2"}}, "both.test": {{"127.0.0.2", "127.0.0.1"}}}}
	h := newHTTP(t, HTTPConfig{AllowPrefixes: loopback, DenyPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, resolver: n.resolver()})
	away := httptest.NewServer(http.RedirectHandler("http://127.0.0.2:"+port+"/", http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	for _, c := range []struct {
		name, url string
		want      bool
	}{
		{"another of the allowed range", "http://127.0.0.1:" + port + "/", true},
		{"the address itself", "http://127.0.0.2:" + port + "/", false},
		{"a redirect to it", away.URL, false},
		{"a name with another address", "http://rebound.test:" + port + "/", true},
		{"the name when it has that address", "http://rebound.test:" + port + "/", false},
		{"a name with both", "http://both.test:" + port + "/", true},
	} {
		res := h.Run(t.Context(), callTo(c.url))
		if (res.Outcome == schema.Succeeded) != c.want || !c.want && (!res.Final || !strings.Contains(res.Error, errDenied.Error())) {
			t.Errorf("Run of a call to %s: %+v; want success %t, or else a final failure", c.name, res, c.want)
		}
	}
	if n, m := open.Load(), closed.Load(); n != 3 || m != 0 {
		t.Errorf("the allowed address was called %d times and the denied one %d, want 3 and 0", n, m)
	}
}
