package executor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
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
			g, err := newGuard(everything, []netip.AddrPort{netip.MustParseAddrPort(c.deny)}, func() {})
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
		c := HTTPConfig{Allow: loopback}
		if deny {
			c.Deny = []netip.AddrPort{at}
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
