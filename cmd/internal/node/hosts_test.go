package node

import (
	"net"
	"net/http"
	"testing"
)

func TestHostsOfAListener(t *testing.T) {
	for name, row := range map[string]struct {
		ip, advertise, host string
		want                bool
	}{
		"any name at a public address": {"10.0.0.1", "", "evil.example", true},
		"any name at every address":    {"0.0.0.0", "", "evil.example", true},
		"a name at the loopback":       {"127.0.0.1", "", "evil.example", false},
		"a name at the loopback of v6": {"::1", "", "evil.example", false},
		"the advertised name":          {"127.0.0.1", "https://jobs.example:8443", "jobs.example", true},
		"another than the advertised":  {"127.0.0.1", "https://jobs.example", "evil.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := hosts(&net.TCPAddr{IP: net.ParseIP(row.ip)}, row.advertise)
			if got := f == nil || f(row.host); got != row.want {
				t.Errorf("at %s, advertised as %q, host %s may be named: %t, want %t", row.ip, row.advertise, row.host, got, row.want)
			}
		})
	}
}

// The rule is in force on a whole node that listens on the loopback interface.
func TestNodeOnTheLoopbackRefusesOtherNames(t *testing.T) {
	w := newWorld(t, "a")
	r := start(t, "a", w.opener("a"), nil).up()
	for host, want := range map[string]int{"evil.example": http.StatusForbidden, "localhost": http.StatusOK} {
		if got := statusFor(t, r.url+"/v1/cluster", host); got != want {
			t.Errorf("GET /v1/cluster of host %s is answered %d, want %d", host, got, want)
		}
	}
}
