package wan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// commandLimit bounds one call of ip.
const commandLimit = 20 * time.Second

// ErrTaken says that a network of this number is in use.
var ErrTaken = errors.New("the network is in use")

// Available is nil where networks can be made; else it says everything that is missing.
func Available() error {
	missing := []error{platformError()}
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("root is needed to make network namespaces"))
	}
	if _, err := exec.LookPath("ip"); err != nil {
		missing = append(missing, errors.New("the program ip is not installed (Debian: apt-get install iproute2)"))
	}
	return errors.Join(missing...)
}

// blackhole makes this machine drop what is sent to an address of Range that nobody has. It
// refuses where Range belongs to another network of this machine.
func blackhole(ctx context.Context) error {
	// routes to parts of it, and routes that it is part of
	for _, selector := range []string{"root", "match"} {
		text, err := run(ctx, []string{"ip", "-4", "route", "show", selector, Range})
		if err != nil {
			return err
		}
		if strangers := strangers(text); len(strangers) > 0 {
			return fmt.Errorf("the addresses %s belong to another network of this machine: %s", Range, strings.Join(strangers, "; "))
		}
	}
	if _, err := run(ctx, []string{"ip", "route", "replace", "blackhole", Range}); err != nil {
		return err
	}
	return Blackholed(ctx, IP(0, 1, 2))
}

// strangers returns the routes in what `ip route show` says that are neither ours nor the default.
func strangers(text string) (routes []string) {
	for route := range strings.Lines(text) {
		words := strings.Fields(route)
		if len(words) == 0 || words[0] == "default" || words[0] == "blackhole" && words[1] == Range {
			continue
		}
		if i := slices.Index(words, "dev"); i > 0 && i+1 < len(words) && ours.MatchString(words[i+1]) {
			continue
		}
		routes = append(routes, strings.TrimSpace(route))
	}
	return routes
}

// Blackholed is nil if this machine drops what is sent to addr instead of sending it to any
// network. It asks the kernel for the way, and sends nothing.
func Blackholed(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", net.JoinHostPort(addr, "9"))
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("packets to %s would be sent from %s", addr, conn.LocalAddr()), conn.Close())
	case errors.Is(err, syscall.EINVAL): // what the kernel says of a blackhole
		return nil
	default:
		return fmt.Errorf("packets to %s: there is no blackhole for them: %w", addr, err)
	}
}

// makeCommands make the namespace of region r (from 1), whose TAP device is there.
func (s Spec) makeCommands(r int) [][]string {
	region := s.Regions[r-1]
	ns, tap, cable := Namespace(s.Number, region.Name), tapName(s.Number, r), cableName(s.Number, r)
	first := IP(s.Number, r, region.Bytes[0])
	commands := [][]string{
		{"ip", "netns", "add", ns},
		{"ip", "-n", ns, "link", "set", "lo", "up"},

		{"ip", "link", "set", tap, "address", hardware(s.Number, r).String()},
		{"ip", "link", "set", tap, "netns", ns},
		{"ip", "-n", ns, "link", "set", tap, "name", insideWAN, "addrgenmode", "none"},
	}
	for _, b := range region.Bytes {
		commands = append(commands, []string{"ip", "-n", ns, "address", "add", IP(s.Number, r, b) + "/32", "dev", insideWAN})
	}
	return append(commands, [][]string{
		{"ip", "-n", ns, "link", "set", insideWAN, "up"},
		{"ip", "-n", ns, "route", "add", IP(s.Number, 0, 0) + "/20", "dev", insideWAN, "src", first},

		{"ip", "link", "add", cable, "type", "veth", "peer", "name", insideHost, "netns", ns},
		{"ip", "-n", ns, "link", "set", insideHost, "up"},
		{"ip", "-n", ns, "route", "add", Host(s.Number) + "/32", "dev", insideHost, "src", first},
		{"ip", "address", "add", Host(s.Number) + "/32", "dev", cable},
		{"ip", "link", "set", cable, "up"},
		{"ip", "route", "add", IP(s.Number, r, 0) + "/24", "dev", cable, "src", Host(s.Number)},
	}...)
}

// Remove removes the namespaces and links of a network, as far as they are there, and leaves the
// blackhole. ErrTaken: processes run in its namespaces, and nothing was removed.
func Remove(ctx context.Context, number int) error {
	found, err := look(ctx)
	if err != nil {
		return err
	}
	found = found.of(number)
	if err := found.occupied(ctx); err != nil {
		return err
	}
	var faults []error
	for _, argv := range found.removeCommands() {
		_, err := run(ctx, argv)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Free is nil if no program runs the network, and no process lives in its namespaces; else it is
// ErrTaken. What a killed program left of it may be there.
func Free(ctx context.Context, number int) error {
	guard, err := listen(number)
	if err != nil {
		return err
	}
	found, err := look(ctx)
	if err == nil {
		err = found.of(number).occupied(ctx)
	}
	return errors.Join(err, guard.Close())
}

// occupied is ErrTaken if processes run in a namespace.
func (f names) occupied(ctx context.Context) error {
	for _, ns := range f.namespaces {
		text, err := run(ctx, []string{"ip", "netns", "pids", ns})
		if err != nil {
			return err
		}
		if pids := strings.Fields(text); len(pids) > 0 {
			return fmt.Errorf("%w: processes in namespace %s: %s", ErrTaken, ns, strings.Join(pids, ", "))
		}
	}
	return nil
}

// Leftover returns the numbers of all networks of which something is there, whoever made it.
func Leftover(ctx context.Context) ([]int, error) {
	found, err := look(ctx)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range slices.Concat(found.links, found.namespaces) {
		if number, ok := numberOf(name); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// names are those of links and namespaces of this machine.
type names struct{ links, namespaces []string }

// of returns the names of one network.
func (f names) of(number int) names {
	others := func(name string) bool { n, ok := numberOf(name); return !ok || n != number }
	return names{slices.DeleteFunc(slices.Clone(f.links), others), slices.DeleteFunc(slices.Clone(f.namespaces), others)}
}

// removeCommands remove what has these names. The outer end of a cable goes first: the kernel may
// take its time with a namespace.
func (f names) removeCommands() (commands [][]string) {
	for _, link := range f.links {
		commands = append(commands, []string{"ip", "link", "delete", link})
	}
	for _, ns := range f.namespaces {
		commands = append(commands, []string{"ip", "netns", "delete", ns})
	}
	return commands
}

// numberOf returns the number of the network that a link or namespace is of; !ok: none of ours.
func numberOf(name string) (number int, ok bool) {
	m := ours.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	number, err := strconv.Atoi(m[1] + m[2])
	return number, err == nil && number <= MaxNumber
}

// look reads the names from the kernel.
func look(ctx context.Context) (found names, err error) {
	links, err := run(ctx, []string{"ip", "-brief", "link", "show"})
	if err != nil {
		return found, err
	}
	for line := range strings.Lines(links) {
		if fields := strings.Fields(line); len(fields) > 0 {
			name, _, _ := strings.Cut(fields[0], "@")
			found.links = append(found.links, name)
		}
	}
	namespaces, err := run(ctx, []string{"ip", "netns", "list"})
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
func run(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- names of our own making
	// Ctrl-C stops this program, which then cleans up
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
