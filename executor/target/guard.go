package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"code.dny.dev/ssrf"
)

// errDenied: an address that tasks may not call. Its text goes into records: it names no address.
var errDenied = errors.New("address is not allowed")

// errUnreached: of several addresses some are denied and the others do not answer.
var errUnreached = errors.New("no allowed address answers")

// guard decides which addresses may be dialled: those of the public internet, and those that the
// operator allows; never those that the operator denies.
//
// It sits in the dialer, behind name resolution. So a name gains nothing that resolves to a
// harmless address when it is checked, and to another one when it is dialled.
type guard struct {
	allowPrefixes []netip.Prefix
	denyPrefixes  []netip.Prefix // comes before allow
	denyAddresses []netip.AddrPort
	public        *ssrf.Guardian // knows the special-purpose registries of IANA
	onDenied      func()         // counts
}

// alsoDenied are addresses of public ranges behind which cloud providers answer from inside.
var alsoDenied = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform address, the same in every region
}

func newGuard(allow, never []netip.Prefix, deny []netip.AddrPort, denied func()) (*guard, error) {
	var faults []error
	for _, of := range []struct {
		what string
		list []netip.Prefix
	}{{"allowed", allow}, {"denied", never}} {
		for _, p := range of.list {
			if !p.IsValid() || p.Addr().Is4In6() {
				faults = append(faults, fmt.Errorf("executor: %s prefix %q is not valid", of.what, p))
			}
		}
	}
	for _, d := range deny {
		if !d.IsValid() {
			faults = append(faults, fmt.Errorf("executor: denied address %q is not valid", d))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &guard{
		allowPrefixes: slices.Clone(allow),
		denyPrefixes:  slices.Clone(never),
		denyAddresses: slices.Clone(deny),
		public:        ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork(), ssrf.WithDeniedV4Prefixes(slices.Clone(alsoDenied)...)),
		onDenied:      denied,
	}, nil
}

// dialKey is the context key of the *atomic.Bool that says whether a dial came across an address
// that is allowed.
type dialKey struct{}

// dialContext returns a function that dials with d as its base, allowed addresses only. Where a
// name has several addresses it skips the others. The error is errDenied only if every address was
// denied: a callee that is down for a moment is not denied because it has a private address as
// well.
func (g *guard) dialContext(d net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	d.ControlContext = g.control
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		allowed := new(atomic.Bool)
		conn, err := d.DialContext(context.WithValue(ctx, dialKey{}, allowed), network, address)
		if errors.Is(err, errDenied) && allowed.Load() {
			return nil, errUnreached
		}
		return conn, err
	}
}

// control sees every address just before it is connected to.
func (g *guard) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") || !g.allows(to.Addr()) || g.denies(to) {
		g.onDenied()
		return errDenied
	}
	if allowed, ok := ctx.Value(dialKey{}).(*atomic.Bool); ok {
		allowed.Store(true)
	}
	return nil
}

// allows reports whether a may be called. An IPv4-mapped IPv6 address is refused even where its
// plain form is allowed: Go dials the plain form, so the mapped one can only be meant to pass a
// check.
func (g *guard) allows(a netip.Addr) bool {
	if !a.IsValid() || a.Is4In6() {
		return false
	}
	plain := a.WithZone("")
	if slices.ContainsFunc(g.denyPrefixes, func(p netip.Prefix) bool { return covers(p, plain) }) {
		return false
	}
	if slices.ContainsFunc(g.allowPrefixes, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return true
	}
	if a.Zone() != "" || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return g.public.SafeAddr(a) == nil
}

// covers reports whether a call to a goes to an address of p. The kernel takes one to an
// unspecified address to the loopback interface.
func covers(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) || a.IsUnspecified() && (p.Contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || p.Contains(netip.IPv6Loopback()))
}

// denies reports whether to may not be called even where its address is allowed. The kernel takes a
// call to an unspecified address to this machine, so one is as good as a denied address with its
// port.
func (g *guard) denies(to netip.AddrPort) bool {
	return slices.ContainsFunc(g.denyAddresses, func(d netip.AddrPort) bool {
		if d.Port() != to.Port() {
			return false
		}
		if to.Addr().IsUnspecified() || d.Addr().Unmap().WithZone("") == to.Addr().WithZone("") {
			return true
		}
		return d.Addr().IsUnspecified() && ofThisMachine(to.Addr())
	})
}

// ofThisMachine reports whether a is an address of this machine. Where that cannot be told it says
// yes.
func ofThisMachine(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err != nil || p.Addr().WithZone("") == a.WithZone("")
	})
}
