package wan

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"time"
)

const (
	// Range holds every address of every network.
	Range = "10.79.0.0/16"
	// MaxNumber bounds the numbers of networks.
	MaxNumber = 15
	// MaxRegions bounds the regions of a network.
	MaxRegions = 15

	perNetwork = MaxRegions + 1 // /24 nets; the first is this machine's
	hostByte   = 1
)

// A Region gets a namespace.
type Region struct {
	Name  string
	Bytes []int // the last bytes of its addresses, each 2 to 254
}

// A Spec describes a network. Its regions are numbered from 1 in their order.
type Spec struct {
	Number  int // 0 to MaxNumber
	Regions []Region
	// Delay is how long each frame is under way between two regions: half of a round trip.
	Delay time.Duration
}

var regionName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

// Validate reports every fault together.
func (s Spec) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.Number < 0 || s.Number > MaxNumber {
		fault("network %d; 0 to %d are possible", s.Number, MaxNumber)
	}
	if len(s.Regions) < 2 || len(s.Regions) > MaxRegions {
		fault("%d regions; 2 to %d are possible", len(s.Regions), MaxRegions)
	}
	faults = append(faults, checkDelay(s.Delay))
	seen := map[string]bool{}
	for _, r := range s.Regions {
		if !regionName.MatchString(r.Name) || seen[r.Name] {
			fault("region %q: the name is taken or is not 1 to 16 of a to z and 0 to 9", r.Name)
		}
		seen[r.Name] = true
		if len(r.Bytes) == 0 {
			fault("region %s has no address", r.Name)
		}
		for i, b := range r.Bytes {
			if b < 2 || b > 254 || slices.Contains(r.Bytes[:i], b) {
				fault("region %s: address byte %d is taken or is not between 2 and 254", r.Name, b)
			}
		}
	}
	return errors.Join(faults...)
}

// MaxDelay bounds the delay of a link. More would need more memory for what is under way.
const MaxDelay = 10 * time.Second

func checkDelay(d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return fmt.Errorf("delay %s; 0 to %s are possible", d, MaxDelay)
	}
	return nil
}

// Host is the address of this machine that every region of a network reaches.
func Host(number int) string { return IP(number, 0, hostByte) }

// IP is the address of region (from 1) that ends in b.
func IP(number, region, b int) string {
	return fmt.Sprintf("10.79.%d.%d", perNetwork*number+region, b)
}

// Namespace is the name of a region's namespace.
func Namespace(number int, region string) string {
	return fmt.Sprintf("carillonw%d-%s", number, region)
}

// Argv is the command line that runs argv in a region. The process keeps its pid.
func Argv(number int, region string, argv []string) []string {
	return append([]string{"ip", "netns", "exec", Namespace(number, region)}, argv...)
}

// Names of links: outside, and inside a namespace.
const (
	insideWAN  = "wan"  // to the hub
	insideHost = "host" // to this machine
)

func tapName(number, region int) string   { return fmt.Sprintf("crw%dt%d", number, region) }
func cableName(number, region int) string { return fmt.Sprintf("crw%dm%d", number, region) }

// ours matches links and namespaces of networks; the group is the number.
var ours = regexp.MustCompile(`^(?:carillonw(\d+)-.+|crw(\d+)[tm]\d+)$`)

// hardware is the Ethernet address of a region, by which the hub finds the port of a frame. The
// second bit of its first byte says that it is made up.
func hardware(number, region int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x63, 0x72, byte(number), 0x00, byte(region)} // #nosec G115 -- both are at most 15
}

// headerBytes of a frame: receiver, sender, type.
const headerBytes = 14

// portOf returns the index of the port that a frame is for. all: it is for every region. Neither:
// it is for nobody here.
func portOf(frame []byte, number, ports int) (port int, all, ok bool) {
	if len(frame) < headerBytes {
		return 0, false, false
	}
	to := net.HardwareAddr(frame[:6])
	if to[0]&1 == 1 { // broadcast, multicast
		return 0, true, true
	}
	region := int(to[5])
	if region < 1 || region > ports || !slices.Equal(to, hardware(number, region)) {
		return 0, false, false
	}
	return region - 1, false, true
}
