package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// hostByte is the last byte of the bridge's address.
	hostByte = 1
	// MaxNumber bounds the numbers of networks.
	MaxNumber = 255
	// inside is what a member's interface is called in its namespace.
	inside = "eth0"
	// commandLimit bounds one call of ip or nft.
	commandLimit = 20 * time.Second
)

// A Network is a bridge 10.77.N.1/24 and the namespaces on it.
type Network struct{ number int }

// New returns network number, 0 to MaxNumber. Nothing is made yet.
func New(number int) Network { return Network{number} }

// A Member is what gets a namespace.
type Member struct {
	Name string
	Byte int // the last byte of its address, 2 to 254
}

// Available is nil where networks can be made; else it says everything that is missing.
func Available() error {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("root is needed to make network namespaces"))
	}
	for _, needed := range [][2]string{{"ip", "iproute2"}, {"nft", "nftables"}} {
		if _, err := exec.LookPath(needed[0]); err != nil {
			missing = append(missing, fmt.Errorf("the program %s is not installed (Debian: apt-get install %s)", needed[0], needed[1]))
		}
	}
	return errors.Join(missing...)
}

// Host is the bridge's own address, by which this machine and the members reach each other.
func (n Network) Host() string { return n.IP(hostByte) }

// IP is the address that ends in b.
func (n Network) IP(b int) string { return fmt.Sprintf("10.77.%d.%d", n.number, b) }

func (n Network) bridge() string               { return fmt.Sprintf("carillon%d", n.number) }
func (n Network) namespace(name string) string { return n.bridge() + "-" + name }
func (n Network) cable(b int) string           { return fmt.Sprintf("crl%dv%d", n.number, b) }

// Argv is the command line that runs argv in the namespace of a member. The process keeps its pid.
func (n Network) Argv(member string, argv []string) []string {
	return append([]string{"ip", "netns", "exec", n.namespace(member)}, argv...)
}

// Make makes the bridge and a namespace for each member. If it fails it removes what it made.
func (n Network) Make(ctx context.Context, members []Member) (err error) {
	if err := Available(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make network %s: %w", n.bridge(), err), n.Remove(context.WithoutCancel(ctx)))
		}
	}()
	for _, argv := range n.bridgeCommands() {
		if _, err := run(ctx, "", argv); err != nil {
			return err
		}
	}
	for _, m := range members {
		for _, argv := range n.memberCommands(m) {
			if _, err := run(ctx, "", argv); err != nil {
				return err
			}
		}
		if _, err := run(ctx, cutRules, n.Argv(m.Name, []string{"nft", "-f", "-"})); err != nil {
			return err
		}
	}
	return nil
}

func (n Network) bridgeCommands() [][]string {
	return [][]string{
		{"ip", "link", "add", n.bridge(), "type", "bridge"},
		{"ip", "address", "add", n.Host() + "/24", "dev", n.bridge()},
		{"ip", "link", "set", n.bridge(), "up"},
	}
}

func (n Network) memberCommands(m Member) [][]string {
	ns, cable := n.namespace(m.Name), n.cable(m.Byte)
	return [][]string{
		{"ip", "netns", "add", ns},
		{"ip", "link", "add", cable, "type", "veth", "peer", "name", inside, "netns", ns},
		{"ip", "link", "set", cable, "master", n.bridge(), "up"},
		{"ip", "-n", ns, "link", "set", "lo", "up"},
		{"ip", "-n", ns, "address", "add", n.IP(m.Byte) + "/24", "dev", inside},
		{"ip", "-n", ns, "link", "set", inside, "up"},
	}
}

// cutRules drop what comes from the addresses in a set, and count it. The set is empty at first.
const cutRules = `table ip cut {
	set from { type ipv4_addr; }
	chain in {
		type filter hook input priority 0; policy accept;
		ip saddr @from counter drop
	}
}
`

// Cut drops what the address from sends to a member, until Heal.
func (n Network) Cut(ctx context.Context, member, from string) error {
	return n.element(ctx, member, from, "add element ip cut from { %[1]s }\n")
}

// Heal lets through what the address from sends to a member. It need not have been cut.
func (n Network) Heal(ctx context.Context, member, from string) error {
	// Adding what is there already is no error, and deleting what is not there is one.
	return n.element(ctx, member, from, "add element ip cut from { %[1]s }\ndelete element ip cut from { %[1]s }\n")
}

func (n Network) element(ctx context.Context, member, from, script string) error {
	addr, err := netip.ParseAddr(from)
	if err == nil && (!netip.MustParsePrefix(n.IP(0)+"/24").Contains(addr) || from == n.Host()) {
		err = errors.New("it is no member's")
	}
	if err != nil {
		return fmt.Errorf("address %s: %w", from, err)
	}
	_, err = run(ctx, fmt.Sprintf(script, addr), n.Argv(member, []string{"nft", "-f", "-"}))
	return err
}

var packets = regexp.MustCompile(`counter packets (\d+)`)

// Dropped is how many packets to a member cuts have dropped so far.
func (n Network) Dropped(ctx context.Context, member string) (int, error) {
	text, err := run(ctx, "", n.Argv(member, []string{"nft", "list", "chain", "ip", "cut", "in"}))
	if err != nil {
		return 0, err
	}
	m := packets.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("count dropped packets: no counter in %q", text)
	}
	return strconv.Atoi(m[1])
}

// Remove removes the bridge, the namespaces and the cables of the network, as far as they are
// there. Processes in a namespace must have ended.
func (n Network) Remove(ctx context.Context) error {
	found, err := look(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, argv := range n.removeCommands(found) {
		_, err := run(ctx, "", argv)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// removeCommands remove what was found of this network. The end of a cable outside goes first: the
// one inside goes with it, also if a process still holds the namespace.
func (n Network) removeCommands(found names) [][]string {
	var argvs [][]string
	for _, link := range found.links {
		if strings.HasPrefix(link, n.cable(0)[:len(n.cable(0))-1]) {
			argvs = append(argvs, []string{"ip", "link", "delete", link})
		}
	}
	for _, ns := range found.namespaces {
		if strings.HasPrefix(ns, n.namespace("")) {
			argvs = append(argvs, []string{"ip", "netns", "delete", ns})
		}
	}
	if slices.Contains(found.links, n.bridge()) {
		argvs = append(argvs, []string{"ip", "link", "delete", n.bridge()})
	}
	return argvs
}

// Leftover returns the numbers of all networks of which something is there, whoever made it.
func Leftover(ctx context.Context) ([]int, error) {
	found, err := look(ctx)
	if err != nil {
		return nil, err
	}
	return found.numbers(), nil
}

// names are those of links and namespaces of this machine.
type names struct{ links, namespaces []string }

var ours = regexp.MustCompile(`^(?:carillon(\d+)(?:-.+)?|crl(\d+)v\d+)$`)

// numbers returns the numbers of networks among the names, each once, ascending.
func (f names) numbers() []int {
	var numbers []int
	for _, name := range slices.Concat(f.links, f.namespaces) {
		m := ours.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if number, err := strconv.Atoi(m[1] + m[2]); err == nil && number <= MaxNumber {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// look reads the names from the kernel.
func look(ctx context.Context) (found names, err error) {
	links, err := run(ctx, "", []string{"ip", "-brief", "link", "show"})
	if err != nil {
		return found, err
	}
	for line := range strings.Lines(links) {
		if fields := strings.Fields(line); len(fields) > 0 {
			name, _, _ := strings.Cut(fields[0], "@")
			found.links = append(found.links, name)
		}
	}
	namespaces, err := run(ctx, "", []string{"ip", "netns", "list"})
	if err != nil {
		return found, err
	}
	for line := range strings.Lines(namespaces) {
		if fields := strings.Fields(line); len(fields) > 0 {
			found.namespaces = append(found.namespaces, fields[0])
		}
	}
	return found, nil
}

// run runs one command and returns what it said.
func run(ctx context.Context, input string, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- names of our own making
	// Ctrl-C stops this program, which then cleans up
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
