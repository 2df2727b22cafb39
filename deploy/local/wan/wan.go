package wan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
)

// A WAN is a network that this program made, and whose hub it runs.
type WAN struct {
	spec  Spec
	hub   *hub
	guard *net.UnixListener

	end  context.CancelFunc
	all  sync.WaitGroup // the hub and the control socket
	done chan struct{}  // closed when the hub has ended
	err  error          // why, before done
}

// Start makes a network and carries frames from then on, until Close. First it removes what a
// killed program left of that number. ErrTaken: another program runs that network, or processes
// run in its namespaces. If it fails it removes what it made.
func Start(ctx context.Context, spec Spec) (_ *WAN, err error) {
	if err := errors.Join(Available(), spec.Validate()); err != nil {
		return nil, fmt.Errorf("make network %d: %w", spec.Number, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make network %d: %w", spec.Number, err)
		}
	}()
	if err := blackhole(ctx); err != nil {
		return nil, err
	}
	guard, err := listen(spec.Number)
	if err != nil {
		return nil, err
	}
	if err := Remove(ctx, spec.Number); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	ports, err := makeAll(ctx, spec)
	if err != nil {
		for _, p := range ports {
			err = errors.Join(err, p.Close())
		}
		return nil, errors.Join(err, Remove(context.WithoutCancel(ctx), spec.Number), guard.Close())
	}
	w := &WAN{spec: spec, hub: newHub(spec.Number, ports, spec.Delay), guard: guard, done: make(chan struct{})}
	running, end := context.WithCancel(context.Background())
	w.end = end
	w.all.Go(func() {
		defer close(w.done)
		w.err = w.hub.run(running)
	})
	w.all.Go(func() { serve(running, guard, &switchboard{spec.Regions, w.hub}) })
	return w, nil
}

// makeAll makes the regions of a network. The ports are those made before an error.
func makeAll(ctx context.Context, spec Spec) (ports []io.ReadWriteCloser, err error) {
	for i := range spec.Regions {
		port, err := openTAP(tapName(spec.Number, i+1))
		if err != nil {
			return ports, err
		}
		ports = append(ports, port)
		for _, argv := range spec.makeCommands(i + 1) {
			if _, err := run(ctx, argv); err != nil {
				return ports, err
			}
		}
	}
	return ports, nil
}

// Done is closed when the hub has ended, by Close or by itself.
func (w *WAN) Done() <-chan struct{} { return w.done }

// Close ends the network and removes it. Processes in its namespaces must have ended: ErrTaken says
// which have not, and then the namespaces stay. The blackhole stays in any case.
func (w *WAN) Close(ctx context.Context) error {
	w.end()
	w.all.Wait()
	// The number is ours until nothing is left of it.
	return errors.Join(w.err, Remove(ctx, w.spec.Number), w.guard.Close())
}

// listen opens the control socket of a network, which makes this program its owner. It has no file:
// the kernel closes it when this program dies.
func listen(number int) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", controlAddr(number))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: another program runs it", ErrTaken)
	}
	return l, err
}

func controlAddr(number int) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("@carillon-wan-%d", number), Net: "unix"}
}
