package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// imageEnd is how the names of images end; leftovers are found by it.
	imageEnd = ".carillon-disk"
	// ballastName is the file that fills a disk.
	ballastName = "carillon-ballast"
	// commandLimit bounds one call of a program.
	commandLimit = 20 * time.Second
	// busyLimit bounds the wait for a mount point that is still in use: killed processes close
	// their files one after the other.
	busyLimit = 5 * time.Second
	busyPoll  = 50 * time.Millisecond
)

// A Disk is an ext4 file system of its own. Its methods must not be called at the same time.
type Disk struct {
	image, mount string
	hold         *os.File // the image, locked
	frozen, off  bool
}

// Available is nil where disks can be made; else it says everything that is missing.
func Available() error {
	missing := []error{platformError()}
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("root is needed to mount disks"))
	}
	for _, needed := range [][2]string{{"mkfs.ext4", "e2fsprogs"}, {"mount", "mount"}, {"umount", "mount"}} {
		if _, err := exec.LookPath(needed[0]); err != nil {
			missing = append(missing, fmt.Errorf("the program %s is not installed (Debian: apt-get install %s)", needed[0], needed[1]))
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		missing = append(missing, fmt.Errorf("there are no loop devices: %w", err))
	}
	return errors.Join(missing...)
}

// Make makes an empty disk of so many bytes and mounts it at mount, a folder that is made if
// missing. The image lies beside it, and takes as much room as is used. If Make fails it leaves
// nothing behind.
func Make(ctx context.Context, mount string, size int64) (d *Disk, err error) {
	d = &Disk{image: mount + imageEnd, mount: mount}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make disk %s: %w", mount, err), d.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if err := Available(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(mount, 0o700); err != nil {
		return nil, err
	}
	if d.hold, err = os.OpenFile(d.image, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if err := errors.Join(tryLock(d.hold), d.hold.Truncate(size)); err != nil {
		return nil, err
	}
	// Nothing is written in the background, and no room is kept for root.
	if err := run(ctx, "mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", d.image); err != nil {
		return nil, err
	}
	if err := d.mountIt(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Disk) mountIt(ctx context.Context) error {
	return run(ctx, "mount", "-t", "ext4", "-o", "loop,noatime,noinit_itable", d.image, d.mount)
}

// unmount waits for the last user of the mount point, which must be on its way out.
func (d *Disk) unmount(ctx context.Context) error {
	for limit := time.Now().Add(busyLimit); ; {
		err := run(ctx, "umount", d.mount)
		if err == nil || ctx.Err() != nil || time.Now().After(limit) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(busyPoll):
		}
	}
}

// PowerOff ends all writes to the disk at once; unwritten data is lost. Later writes get errors, so
// stop the disk's users before, and kill them before PowerOn.
func (d *Disk) PowerOff() error {
	if err := d.control(shutDown); err != nil {
		return fmt.Errorf("power off %s: %w", d.mount, err)
	}
	d.off = true
	return nil
}

// PowerOn mounts the disk again with what was on it.
func (d *Disk) PowerOn(ctx context.Context) error {
	if err := errors.Join(d.unmount(ctx), d.mountIt(ctx)); err != nil {
		return fmt.Errorf("power on %s: %w", d.mount, err)
	}
	d.off = false
	return nil
}

// Off reports whether the disk has no power.
func (d *Disk) Off() bool { return d.off }

// Frozen reports whether writers wait for a Thaw.
func (d *Disk) Frozen() bool { return d.frozen }

// Freeze has all that write to the disk wait until Thaw. What was written before is synced.
func (d *Disk) Freeze() error {
	if err := d.control(freeze); err != nil {
		return fmt.Errorf("freeze disk %s: %w", d.mount, err)
	}
	d.frozen = true
	return nil
}

// Thaw lets writers go on.
func (d *Disk) Thaw() error {
	if err := d.control(thaw); err != nil {
		return fmt.Errorf("thaw disk %s: %w", d.mount, err)
	}
	d.frozen = false
	return nil
}

// Fill takes all free room of the disk, until Empty.
func (d *Disk) Fill() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fill disk %s: %w", d.mount, err)
		}
	}()
	f, err := os.OpenFile(filepath.Join(d.mount, ballastName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return takeRoom(f)
}

// Empty gives the room back that Fill took.
func (d *Disk) Empty() error {
	if err := os.Remove(filepath.Join(d.mount, ballastName)); err != nil {
		return fmt.Errorf("make room on disk %s: %w", d.mount, err)
	}
	return nil
}

// Remove unmounts the disk and deletes its image, as far as they are there. Its users must have
// ended.
func (d *Disk) Remove(ctx context.Context) error {
	var faults []error
	if d.frozen {
		faults = append(faults, d.Thaw())
	}
	mounted, err := mounts()
	faults = append(faults, err)
	for _, m := range mounted {
		if m.mount == d.mount {
			faults = append(faults, d.unmount(ctx))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("remove disk %s: %w", d.mount, err)
	}
	if d.hold == nil {
		return nil
	}
	return errors.Join(os.Remove(d.image), d.hold.Close())
}

// RemoveLeftover removes disks whose programs have died, and says which.
func RemoveLeftover(ctx context.Context) (removed []string, err error) {
	mounted, err := mounts()
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, d := range mounted {
		f, err := os.OpenFile(d.image, os.O_RDWR, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist): // its folder was deleted: no program can hold it
		case err != nil:
			faults = append(faults, err)
			continue
		case tryLock(f) != nil: // a program holds it
			faults = append(faults, f.Close())
			continue
		default:
			d.hold = f
		}
		_ = d.Thaw() // fails unless it is frozen
		if err := d.Remove(ctx); err != nil {
			faults = append(faults, err)
			continue
		}
		removed = append(removed, d.mount)
	}
	return removed, errors.Join(faults...)
}

// mounts returns the disks that are mounted, whoever made them.
func mounts() ([]*Disk, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return disksOf(string(text), func(device string) (string, error) {
		text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
		return strings.TrimSpace(string(text)), err
	}), nil
}

// disksOf reads a list of mounts (fstab(5)); imageOf tells the image of a loop device.
func disksOf(text string, imageOf func(device string) (string, error)) []*Disk {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all []*Disk
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "/dev/loop") {
			continue
		}
		image, err := imageOf(fields[0])
		image = strings.TrimSuffix(image, " (deleted)")
		mount := unescape.Replace(fields[1])
		if err == nil && image == mount+imageEnd {
			all = append(all, &Disk{image: image, mount: mount})
		}
	}
	return all
}

// run runs one command.
func run(ctx context.Context, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- names of our own making
	// Ctrl-C stops this program, which then cleans up
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return nil
}
