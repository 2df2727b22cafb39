// Package disk gives members of a cluster a disk of their own, and does to it what happens to
// disks: it loses its power, is full, or answers nobody for a while. It needs root, ext4 and loop
// devices.
//
//	image file ── loop device ── ext4 ── mount point, the member's data directory
//
// # Power cuts
//
// PowerOff has ext4 write nothing any more, neither data nor journal, as the tests of file systems
// do (EXT4_IOC_SHUTDOWN). PowerOn mounts the image again, and ext4 replays its journal. What was
// synced is there then. What was only in memory is gone: data that the kernel had not yet written
// back, which it does after 30 s, and names of files that no commit of the journal, each 5 s, had
// kept. A disk that loses what it has itself acknowledged is not simulated.
//
// # Invariants
//
//  1. A Disk holds a lock on its image as long as its program lives. What a killed program left
//     behind is known by that, and RemoveLeftover removes nothing else.
//  2. A frozen disk is thawed before it is removed: nothing waits for ever.
package disk
