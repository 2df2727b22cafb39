package wan

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

const tunDevice = "/dev/net/tun"

// platformError is nil where networks can be made.
func platformError() error {
	if _, err := os.Stat(tunDevice); err != nil {
		return fmt.Errorf("TAP devices cannot be made (modprobe tun): %w", err)
	}
	return nil
}

// openTAP makes a TAP device of this name, which is gone when it is closed. A read returns one
// frame, a write sends one.
func openTAP(name string) (io.ReadWriteCloser, error) {
	fd, err := syscall.Open(tunDevice, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	var request struct { // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:syscall.IFNAMSIZ-1], name)
	request.flags = syscall.IFF_TAP | syscall.IFF_NO_PI
	_, _, no := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request))) // #nosec G103 -- ioctl takes a pointer
	if no != 0 {
		return nil, errors.Join(fmt.Errorf("make TAP device %s: %w", name, no), syscall.Close(fd))
	}
	// Only now: a descriptor without a device cannot be polled.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make TAP device %s: %w", name, err), syscall.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// trusted reports whether the other end of a socket is a process of this program's user or of root.
func trusted(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	known := false
	err = raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		known = err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
	})
	return err == nil && known
}
