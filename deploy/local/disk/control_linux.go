package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// A request is one to the file system, with the number that the kernel knows it by.
type request uintptr

const (
	freeze   request = 0xC0045877 // FIFREEZE
	thaw     request = 0xC0045878 // FITHAW
	shutDown request = 0x8004587D // EXT4_IOC_SHUTDOWN

	// withoutFlush has a shutdown write nothing, not even the journal.
	withoutFlush uint32 = 2
)

func platformError() error { return nil }

// control makes a request to the disk's file system.
func (d *Disk) control(r request) (err error) {
	dir, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	// the other requests look at nothing
	flags := withoutFlush
	if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), uintptr(r), uintptr(unsafe.Pointer(&flags))); no != 0 { // #nosec G103 -- ioctl takes a pointer
		return no
	}
	return nil
}

// takeRoom has a file take all free blocks of its file system, without writing them.
func takeRoom(f *os.File) error {
	at := int64(0)
	for {
		var s syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &s); err != nil {
			return err
		}
		n := int64(s.Bavail) * s.Bsize // #nosec G115 -- of a small disk
		if n == 0 {
			return nil
		}
		// Some of the free blocks are needed to keep account of the file itself.
		for err := syscall.ENOSPC; errors.Is(err, syscall.ENOSPC); n /= 2 {
			if n < s.Bsize {
				return nil
			}
			got := syscall.Fallocate(int(f.Fd()), 0, at, n)
			if got == nil {
				at += n
				break
			}
			if !errors.Is(got, syscall.ENOSPC) {
				return fmt.Errorf("take %d bytes: %w", n, got)
			}
		}
	}
}

// tryLock locks a file for this program, or returns an error if another program has the lock.
func tryLock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
