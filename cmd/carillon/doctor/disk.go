package doctor

import "fmt"

// DiskFacts is how full the file system of a folder is.
type DiskFacts struct {
	Dir         string
	Free, Total uint64 // bytes; free for others than root
	Err         error
}

// Parts of a disk that should be free. Cassandra writes tables anew when it compacts them, and needs
// room for both.
const (
	littleFree = 0.25
	hardlyFree = 0.05
)

// judgeDisks judges the free space of the folders that were named.
func judgeDisks(f *Facts) (fs findings) {
	for _, d := range f.Disks {
		if d.Err != nil {
			fs.add(Warning, "disk", fmt.Sprintf("%s: %s", d.Dir, oneLine(d.Err)), "its free space is not known", "")
			continue
		}
		what := fmt.Sprintf("%s: %s of %s are free", d.Dir, bytesText(float64(d.Free)), bytesText(float64(d.Total)))
		switch free := float64(d.Free) / float64(max(d.Total, 1)); {
		case free < hardlyFree:
			fs.add(Error, "disk", what, "a full disk stops Cassandra, and switches JetStream off", "make room now: nodetool clearsnapshot, a larger disk, more nodes")
		case free < littleFree:
			fs.add(Warning, "disk", what, "compaction may need more", "a larger disk, more nodes, or a shorter retention; carillon capacity says what a load needs")
		default:
			fs.ok("disk", "%s", what)
		}
	}
	return fs
}
