package executor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// errDenied: an address that tasks may not call. Its text goes into records: it names no address.
var errDenied = errors.New("address is not allowed")

// guard decides which addresses may be dialled: those of the public internet, and what the operator allows.
//
// It sits in the dialer, behind name resolution: a name that resolves to a harmless address when it is looked at and to another
// when it is dialled gains nothing.
type guard struct {
	allow  []netip.Prefix
	public *ssrf.Guardian // knows the special-purpose registries of IANA
	denied func()         // counts
}

// alsoDenied are addresses of public ranges behind which cloud providers answer from inside.
var alsoDenied = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform address, the same in every region
}

func newGuard(allow []netip.Prefix, denied func()) (*guard, error) {
	var faults []error
	for _, p := range allow {
		if !p.IsValid() || p.Addr().Is4In6() {
			faults = append(faults, fmt.Errorf("executor: allowed prefix %q is not valid", p))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &guard{
		allow:  slices.Clone(allow),
		public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork(), ssrf.WithDeniedV4Prefixes(slices.Clone(alsoDenied)...)),
		denied: denied,
	}, nil
}

// control is a net.Dialer's Control: it sees every address just before it is connected to.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") || !g.allows(to.Addr()) {
		g.denied()
		return errDenied
	}
	return nil
}

// allows reports whether a may be called. An IPv4 address in IPv6 clothes is refused even where its plain form is allowed:
// Go dials the plain form, so whatever brings the other one means to get past somebody.
func (g *guard) allows(a netip.Addr) bool {
	if !a.IsValid() || a.Is4In6() {
		return false
	}
	plain := a.WithZone("")
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return true
	}
	if a.Zone() != "" || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return g.public.SafeAddr(a) == nil
}
