package disk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDisk makes a disk of 64 MiB, and removes it at the end of the test.
func testDisk(t *testing.T) *Disk {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("SKIPPED, no disk can be made here: %v", err)
	}
	d, err := Make(t.Context(), filepath.Join(t.TempDir(), "data"), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Remove = %v", err)
		}
	})
	return d
}

// write writes a file and syncs it, and its name, if asked to.
func write(t *testing.T, path string, text []byte, synced bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if synced {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), dir.Sync(), dir.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPowerCutLosesWhatWasNotSynced(t *testing.T) {
	d := testDisk(t)
	kept := bytes.Repeat([]byte("synced "), 10_000)
	lost := bytes.Repeat([]byte("in memory "), 10_000)
	synced, unsynced := filepath.Join(d.mount, "synced"), filepath.Join(d.mount, "unsynced")
	write(t, synced, kept, true)
	write(t, synced, lost, false)
	write(t, unsynced, lost, false)
	if text, err := os.ReadFile(unsynced); err != nil || !bytes.Equal(text, lost) {
		t.Fatalf("before the cut: %d bytes, %v, want what was written", len(text), err)
	}

	if err := d.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.mount, "later"), lost, 0o600); err == nil {
		t.Error("a write to a disk without power succeeded")
	}
	if err := d.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}

	if text, err := os.ReadFile(synced); err != nil || !bytes.HasPrefix(text, kept) {
		t.Errorf("after the cut the synced file holds %d bytes, %v, want the %d that were synced", len(text), err, len(kept))
	}
	for _, path := range []string{synced, unsynced} {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, lost[:100]) {
			t.Errorf("after the cut %s holds what was not synced", filepath.Base(path))
		}
	}
	write(t, filepath.Join(d.mount, "after"), kept, true)
}

func TestFullDiskTakesNothingUntilThereIsRoom(t *testing.T) {
	d := testDisk(t)
	if err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	path, text := filepath.Join(d.mount, "file"), make([]byte, 1<<20)
	if err := os.WriteFile(path, text, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to a full disk = %v, want %v", err, syscall.ENOSPC)
	}
	if err := d.Empty(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Errorf("a write after room was made = %v", err)
	}
}

func TestFrozenDiskHasWritersWait(t *testing.T) {
	d := testDisk(t)
	if err := d.Freeze(); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(filepath.Join(d.mount, "file"), []byte("text"), 0o600) }()
	select {
	case err := <-wrote:
		t.Errorf("a write to a frozen disk = %v, want it to wait", err)
		wrote <- err
	default:
	}
	if err := d.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Errorf("a write after the thaw = %v", err)
	}
}

func TestOnlyDisksOfDeadProgramsAreLeftover(t *testing.T) {
	held, dead := testDisk(t), testDisk(t)
	// as the kernel does with the files of the dead
	if err := errors.Join(dead.Freeze(), dead.hold.Close()); err != nil {
		t.Fatal(err)
	}
	removed, err := RemoveLeftover(t.Context())
	dead.frozen, dead.hold = false, nil
	found := map[string]bool{}
	for _, mount := range removed {
		found[mount] = true
	}
	if err != nil || !found[dead.mount] || found[held.mount] {
		t.Errorf("RemoveLeftover = %q, %v, want %s among them and not %s", removed, err, dead.mount, held.mount)
	}
	if _, err := os.Stat(dead.image); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the image of the dead is still there: %v", err)
	}
	write(t, filepath.Join(held.mount, "file"), []byte("text"), true)
}

func TestDisksAreFoundAmongMounts(t *testing.T) {
	const mounts = `/dev/root / ext4 rw 0 0
/dev/loop0 /tmp/a\040b/data ext4 rw 0 0
/dev/loop1 /mnt/other ext4 rw 0 0
/dev/loop2 /tmp/gone/data ext4 rw 0 0
`
	images := map[string]string{
		"/dev/loop0": "/tmp/a b/data" + imageEnd, "/dev/loop1": "/home/other.img", "/dev/loop2": "/tmp/gone/data" + imageEnd + " (deleted)",
	}
	var got []string
	for _, d := range disksOf(mounts, func(device string) (string, error) { return images[device], nil }) {
		got = append(got, d.mount)
	}
	if len(got) != 2 || got[0] != "/tmp/a b/data" || got[1] != "/tmp/gone/data" {
		t.Errorf("disksOf = %q, want the first and the last", got)
	}
}
