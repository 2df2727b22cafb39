package wan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSpecValidate(t *testing.T) {
	good := Spec{Number: 3, Regions: []Region{{"eu", []int{11, 21}}, {"us", []int{11}}}, Delay: 40 * time.Millisecond}
	for _, c := range []struct {
		name   string
		change func(*Spec)
		faults []string // parts of the message, all of them; none = valid
	}{
		{"good", func(*Spec) {}, nil},
		{"one region", func(s *Spec) { s.Regions = s.Regions[:1] }, []string{"1 regions"}},
		{"unknown number", func(s *Spec) { s.Number = 16 }, []string{"network 16"}},
		{"a name twice", func(s *Spec) { s.Regions[1].Name = "eu" }, []string{`region "eu"`}},
		{"a name of two words", func(s *Spec) { s.Regions[1].Name = "the us" }, []string{`region "the us"`}},
		{"no address", func(s *Spec) { s.Regions[1].Bytes = nil }, []string{"us has no address"}},
		{"an address twice", func(s *Spec) { s.Regions[1].Bytes = []int{11, 11} }, []string{"byte 11"}},
		{"everything", func(s *Spec) { s.Number, s.Delay, s.Regions[0].Bytes = -1, -1, []int{255} }, []string{"network -1", "delay -1ns", "byte 255"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := good
			spec.Regions = slices.Clone(good.Regions)
			c.change(&spec)
			err := spec.Validate()
			if (err == nil) != (len(c.faults) == 0) {
				t.Fatalf("Validate() = %v, want faults %q", err, c.faults)
			}
			for _, fault := range c.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("Validate() = %v, want %q in it", err, fault)
				}
			}
		})
	}
}

// TestAddressesAreApart: no two regions of any networks share an address, all lie in Range, and
// names fit.
func TestAddressesAreApart(t *testing.T) {
	all := netip.MustParsePrefix(Range)
	seen := map[string]bool{}
	for number := range MaxNumber + 1 {
		whole := netip.MustParsePrefix(IP(number, 0, 0) + "/20") // as a region's route to the others has it
		if whole != whole.Masked() {
			t.Errorf("%s is no net", whole)
		}
		for _, addr := range []string{Host(number), IP(number, 1, 11), IP(number, MaxRegions, 11)} {
			if seen[addr] || !all.Contains(netip.MustParseAddr(addr)) || !whole.Contains(netip.MustParseAddr(addr)) {
				t.Errorf("address %s of network %d is another's, or lies outside of %s or %s", addr, number, whole, all)
			}
			seen[addr] = true
		}
	}
	for _, name := range []string{tapName(MaxNumber, MaxRegions), cableName(MaxNumber, MaxRegions)} {
		if len(name) > 15 {
			t.Errorf("link %q has %d characters, the kernel takes 15", name, len(name))
		}
	}
}

func TestPortOf(t *testing.T) {
	to := func(hardware ...byte) []byte { return append(slices.Clone(hardware), make([]byte, 8)...) }
	for _, c := range []struct {
		name    string
		frame   []byte
		port    int
		all, ok bool
	}{
		{"the second region", to(hardware(3, 2)...), 1, false, true},
		{"everyone", to(0xff, 0xff, 0xff, 0xff, 0xff, 0xff), 0, true, true},
		{"a region of another network", to(hardware(4, 2)...), 0, false, false},
		{"a region that is not there", to(hardware(3, 3)...), 0, false, false},
		{"a stranger", to(0x02, 1, 2, 3, 4, 5), 0, false, false},
		{"no whole header", hardware(3, 2), 0, false, false},
		{"nothing", nil, 0, false, false},
	} {
		if port, all, ok := portOf(c.frame, 3, 2); port != c.port || all != c.all || ok != c.ok {
			t.Errorf("%s: portOf = %d, %t, %t, want %d, %t, %t", c.name, port, all, ok, c.port, c.all, c.ok)
		}
	}
}

func TestOnlyOwnNamesAreFound(t *testing.T) {
	found := names{
		links:      []string{"lo", "eth0", "carillon3", "crl3v11", "crw3t1", "crw3m2", "crw12m1", "crwX", "crw99t1"},
		namespaces: []string{"carillon3-nats-1", "carillonw3-eu", "carillonw12-us", "mine"},
	}
	var got []string
	for _, argv := range found.of(3).removeCommands() {
		got = append(got, strings.Join(argv, " "))
	}
	want := []string{"ip link delete crw3t1", "ip link delete crw3m2", "ip netns delete carillonw3-eu"}
	if !slices.Equal(got, want) {
		t.Errorf("removeCommands = %q, want %q: nothing of others", got, want)
	}
}

func TestStrangers(t *testing.T) {
	text := "default via 192.0.2.1 dev eth0 \nblackhole 10.79.0.0/16 \n10.79.1.0/24 dev crw0m1 scope link src 10.79.0.1 \n" +
		"10.0.0.0/8 via 192.0.2.7 dev eth0 \n10.79.4.0/24 dev docker0 \nblackhole 10.0.0.0/8\n"
	want := []string{"10.0.0.0/8 via 192.0.2.7 dev eth0", "10.79.4.0/24 dev docker0", "blackhole 10.0.0.0/8"}
	if got := strangers(text); !slices.Equal(got, want) {
		t.Errorf("strangers = %q, want %q", got, want)
	}
}
