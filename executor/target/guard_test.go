package target

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestGuardAllows(t *testing.T) {
	type address struct {
		addr string
		want bool
	}
	for name, c := range map[string]struct {
		allow []string
		table []address
		never []string
	}{
		"nothing allowed": {table: []address{
			{"8.8.8.8", true},
			{"1.1.1.1", true},
			{"192.0.1.1", true},
			{"172.15.255.255", true},
			{"172.32.0.1", true},
			{"100.63.255.255", true},
			{"100.128.0.1", true},
			{"198.17.255.255", true},
			{"198.20.0.0", true},
			{"223.255.255.254", true},
			{"11.0.0.0", true},
			{"2606:4700::1111", true},
			{"2a00:1450:4001::1", true},
			{"2001:4860:4860::8888", true},

			{"0.0.0.0", false},
			{"0.1.2.3", false},
			{"10.0.0.1", false},
			{"172.16.0.1", false},
			{"172.31.255.255", false},
			{"192.168.0.1", false},
			{"100.64.0.1", false},
			{"100.100.100.200", false},
			{"100.127.255.255", false},
			{"127.0.0.1", false},
			{"127.255.255.255", false},
			{"169.254.169.254", false},
			{"169.254.0.1", false},
			{"168.63.129.16", false},
			{"192.0.0.1", false},
			{"192.0.0.192", false},
			{"192.0.2.1", false},
			{"198.51.100.1", false},
			{"203.0.113.1", false},
			{"192.88.99.1", false},
			{"198.18.0.1", false},
			{"198.19.255.255", false},
			{"224.0.0.1", false},
			{"239.255.255.255", false},
			{"240.0.0.1", false},
			{"255.255.255.255", false},
			{"::", false},
			{"::1", false},
			{"::2", false},
			{"::7f00:1", false},
			{"::ffff:127.0.0.1", false},
			{"::ffff:8.8.8.8", false},
			{"::ffff:0:127.0.0.1", false},
			{"64:ff9b::7f00:1", false},
			{"64:ff9b::808:808", false},
			{"64:ff9b:1::1", false},
			{"2002:7f00:1::", false},
			{"2002:808:808::1", false},
			{"2001::1", false},
			{"2001:0:53aa:64c:0:0:80ff:fffe", false},
			{"2001:10::1", false},
			{"2001:20::1", false},
			{"2001:db8::1", false},
			{"3fff::1", false},
			{"100::1", false},
			{"5f00::1", false},
			{"fc00::1", false},
			{"fd00:ec2::254", false},
			{"fe80::1", false},
			{"fe80::1%eth0", false},
			{"fec0::1", false},
			{"ff02::1", false},
			{"4000::1", false},
			{"2606:4700::1111%eth0", false},
		}},
		"some allowed": {allow: []string{"10.1.0.0/16", "fd12::/16", "169.254.169.254/32"}, table: []address{
			{"10.1.2.3", true},
			{"10.2.0.1", false},
			{"fd12::1", true},
			{"fd13::1", false},
			{"169.254.169.254", true},
			{"169.254.169.253", false},
			{"::ffff:10.1.2.3", false},
			{"8.8.8.8", true},
		}},
		"link-local allowed": {allow: []string{"fe80::/10"}, table: []address{{"fe80::1%eth0", true}}},
		"public ones denied": {never: []string{"8.8.8.0/24", "2606:4700::/32"}, table: []address{
			{"8.8.8.8", false},
			{"8.8.9.8", true},
			{"2606:4700::1111", false},
			{"2a00:1450:4001::1", true},
		}},
		"allowed ones denied": {allow: []string{"0.0.0.0/0", "::/0"}, never: []string{"10.1.0.0/16", "fe80::/10", "169.254.169.254/32"}, table: []address{
			{"10.1.2.3", false},
			{"10.2.0.1", true},
			{"fe80::1%eth0", false},
			{"169.254.169.254", false},
			{"169.254.169.253", true},
			{"0.0.0.0", true},
		}},
		"loopback denied": {allow: []string{"0.0.0.0/0", "::/0"}, never: []string{"127.0.0.0/8"}, table: []address{
			{"127.0.0.1", false},
			{"0.0.0.0", false}, // reaches the loopback interface
			{"::", false},
			{"::1", true},
		}},
		"everything denied": {allow: []string{"10.0.0.0/8"}, never: []string{"0.0.0.0/0", "::/0"}, table: []address{
			{"10.0.0.1", false},
			{"8.8.8.8", false},
			{"2606:4700::1111", false},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var allow, never []netip.Prefix
			for _, p := range c.allow {
				allow = append(allow, netip.MustParsePrefix(p))
			}
			for _, p := range c.never {
				never = append(never, netip.MustParsePrefix(p))
			}
			g, err := newGuard(allow, never, nil, func() {})
			if err != nil {
				t.Fatalf("newGuard(%v): %v", allow, err)
			}
			for _, a := range c.table {
				if got := g.allows(netip.MustParseAddr(a.addr)); got != a.want {
					t.Errorf("allows(%s): got %v, want %v", a.addr, got, a.want)
				}
			}
		})
	}
}

func TestGuardControl(t *testing.T) {
	denied := 0
	g, err := newGuard(loopback, nil, nil, func() { denied++ })
	if err != nil {
		t.Fatalf("newGuard: %v", err)
	}
	for _, c := range []struct {
		network, address string
		want             bool
	}{
		{"tcp4", "127.0.0.1:80", true},
		{"tcp6", "[::1]:1", true},
		{"tcp4", "127.0.0.1:65535", true},
		{"udp4", "127.0.0.1:80", false},
		{"unix", "/run/docker.sock", false},
		{"tcp4", "localhost:80", false},
		{"tcp4", "10.0.0.1:80", false},
		{"tcp6", "[fe80::1%eth0]:80", false},
	} {
		was := denied
		if got := g.control(t.Context(), c.network, c.address, nil) == nil; got != c.want {
			t.Errorf("control(%s, %s): got %v, want %v", c.network, c.address, got, c.want)
		} else if counted := denied > was; counted == c.want {
			t.Errorf("control(%s, %s): counted as denied: %v", c.network, c.address, counted)
		}
	}
}

func TestNewHTTPNamesEveryFault(t *testing.T) {
	_, err := NewHTTP(HTTPConfig{
		AllowPrefixes: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104")}, DenyPrefixes: []netip.Prefix{netip.MustParsePrefix("::ffff:10.1.0.0/112")},
		DenyAddresses: []netip.AddrPort{{}}, MaxBody: -1, MaxConnsPerHost: -1,
	})
	for _, want := range []string{"invalid Prefix", "denied address", "::ffff:10.0.0.0/104", "denied prefix \"::ffff:10.1.0.0/112", "largest body", "connections per host"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewHTTP of a wrong configuration: got %v, want it to name %q", err, want)
		}
	}
}

// names answers questions for names, without a network. Each name has a list of answers: the n-th
// question for its IPv4 addresses gets the n-th, and the last one stands. The IPv6 addresses are
// those of the answer that stands when they are asked for.
type names struct {
	mu      sync.Mutex
	answers map[string][][]string
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.serve(server)
		return client, nil
	}}
}

func (n *names) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		a := n.answer(q)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
			return
		}
	}
}

// Types of DNS records (RFC 1035, section 3.2.2; RFC 3596, section 2.1).
const (
	typeA    = 1
	typeAAAA = 28
)

// answer answers one DNS message of one question (RFC 1035, section 4).
func (n *names) answer(q []byte) []byte {
	end, labels := 12, []string(nil)
	for q[end] != 0 {
		labels = append(labels, string(q[end+1:end+1+int(q[end])]))
		end += 1 + int(q[end])
	}
	end += 5
	kind := binary.BigEndian.Uint16(q[end-4:])
	var found []netip.Addr
	n.mu.Lock()
	name := strings.Join(labels, ".")
	list, known := n.answers[name]
	if known && (kind == typeA || kind == typeAAAA) {
		for _, a := range list[0] {
			if addr := netip.MustParseAddr(a); addr.Is4() == (kind == typeA) {
				found = append(found, addr)
			}
		}
		if kind == typeA && len(list) > 1 {
			n.answers[name] = list[1:]
		}
	}
	n.mu.Unlock()
	a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(len(found)), 0, 0, 0, 0}, q[12:end]...)
	if !known {
		a[3] |= 3 // no such name
	}
	for _, addr := range found {
		data := addr.AsSlice()
		a = append(a, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
		a = append(a, data...)
	}
	return a
}

// pair starts two servers on one port of 127.0.0.1 and 127.0.0.2 that count their calls and keep no
// connection.
func pair(t *testing.T) (port string, first, second *atomic.Int64) {
	t.Helper()
	var counts [2]atomic.Int64
	for try := range 20 {
		a, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("listen: %v", err)
		}
		_, port, _ = net.SplitHostPort(a.Addr().String())
		b, err := net.Listen("tcp4", "127.0.0.2:"+port)
		if err != nil {
			_ = a.Close()
			t.Logf("try %d: listen on a second address: %v", try, err)
			continue
		}
		for i, l := range []net.Listener{a, b} {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { counts[i].Add(1) }))
			_ = s.Listener.Close()
			s.Listener = l
			s.Config.SetKeepAlivesEnabled(false)
			s.Start()
			t.Cleanup(s.Close)
		}
		return port, &counts[0], &counts[1]
	}
	t.Fatal("no port is free on both addresses")
	return "", nil, nil
}

// ipv6 reports whether the kernel makes sockets of IPv6.
func ipv6() bool {
	c, err := net.ListenPacket("udp6", "[::]:0")
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func TestGuardSeesWhatANameResolvesTo(t *testing.T) {
	port, open, closed := pair(t)
	for name, c := range map[string]struct {
		answers [][]string // of the look-ups, one after the other
		want    []bool     // success of the calls
	}{
		"allowed":                 {[][]string{{"127.0.0.1"}}, []bool{true, true}},
		"denied":                  {[][]string{{"127.0.0.2"}}, []bool{false}},
		"rebound to another":      {[][]string{{"127.0.0.1"}, {"127.0.0.2"}}, []bool{true, false, false}},
		"one of two is allowed":   {[][]string{{"127.0.0.2", "127.0.0.1"}}, []bool{true}},
		"one of two, other order": {[][]string{{"127.0.0.1", "127.0.0.2"}}, []bool{true}},
		// Names with an address of IPv6, most with nothing else, that stands for one of IPv4.
		"NAT64":                  {[][]string{{"64:ff9b::7f00:1"}}, []bool{false}},
		"IPv4-mapped":            {[][]string{{"::ffff:127.0.0.2"}}, []bool{false}},
		"IPv4-compatible":        {[][]string{{"::127.0.0.1"}}, []bool{false}},
		"6to4":                   {[][]string{{"2002:7f00:1::"}}, []bool{false}},
		"NAT64, and one allowed": {[][]string{{"64:ff9b::7f00:1", "127.0.0.1"}}, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			if netip.MustParseAddr(c.answers[0][0]).Is6() && !ipv6() {
				t.Skip("there is no IPv6 here: nothing is dialled that the guard could see")
			}
			n := &names{answers: map[string][][]string{"hooks.test": c.answers}}
			h := newHTTP(t, HTTPConfig{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, resolver: n.resolver()})
			for i, want := range c.want {
				was := open.Load()
				res := h.Run(t.Context(), callTo("http://hooks.test:"+port+"/"))
				switch {
				case (res.Outcome == schema.Succeeded) != want:
					t.Errorf("call %d: got %+v, want success %v", i, res, want)
				case want && open.Load() != was+1:
					t.Errorf("call %d succeeded, and the server saw %d calls more, want 1", i, open.Load()-was)
				case !want && (!res.Final || res.Error != "hooks.test: address is not allowed"):
					t.Errorf("call %d: got %+v, want a final failure that names the host and no address", i, res)
				}
			}
		})
	}
	if n := closed.Load(); n != 0 {
		t.Errorf("the denied address was called %d times, want 0", n)
	}
}

func TestGuardDoesNotEndARunWhoseAllowedAddressIsDown(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close() // nobody listens there now
	for _, order := range [][]string{{"127.0.0.1", "127.0.0.2"}, {"127.0.0.2", "127.0.0.1"}} {
		n := &names{answers: map[string][][]string{"hooks.test": {order}}}
		h := newHTTP(t, HTTPConfig{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, resolver: n.resolver()})
		res := h.Run(t.Context(), callTo("http://hooks.test:"+port+"/"))
		if res.Outcome != schema.Failed || res.Final || strings.Contains(res.Error, "127.0.0.") {
			t.Errorf("Run with %v, of which one is denied and one down: got %+v, want a failure that is retried and names no address", order, res)
		}
	}
}

func TestGuardIsNotFooledByTheFormOfAnAddress(t *testing.T) {
	port, _, closed := pair(t)
	h := newHTTP(t, HTTPConfig{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, resolver: (&names{}).resolver()})
	for _, host := range []string{
		"127.0.0.2", "127.2", "127.0.2", "2130706434", "0x7f000002", "0177.0.0.2", "0x7f.0.0.2", "127.0.0.2.", "[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "[::127.0.0.2]", "[fe80::1%25lo]",
	} {
		res := h.Run(t.Context(), callTo("http://"+host+":"+port+"/"))
		if res.Outcome != schema.Failed {
			t.Errorf("Run of a call to %s: got %+v, want a failure", host, res)
		}
	}
	if n := closed.Load(); n != 0 {
		t.Errorf("the denied address was called %d times, want 0", n)
	}
}
