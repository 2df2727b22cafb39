package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// What a member keeps in memory at most, in bytes: the heap of a Cassandra node and what the JVM
// has beside it, a NATS server, a Carillon node under the loads of tests.
const (
	mebibyte        = 1 << 20
	cassandraSmall  = 450 * mebibyte  // ProfileTest, 256 MiB of heap
	cassandraLarge  = 2900 * mebibyte // ProfileLoad, 2 GiB of heap
	natsMemory      = 60 * mebibyte
	carillonMemory  = 150 * mebibyte
	memoryInfo      = "/proc/meminfo"
	availableMemory = "MemAvailable:"
)

// Memory is about how much memory the members of s keep, in bytes.
func (s Spec) Memory() int64 {
	each := int64(cassandraSmall)
	if s.Profile == ProfileLoad {
		each = cassandraLarge
	}
	return int64(s.Cassandra)*each + int64(s.NATS)*natsMemory + int64(s.Nodes)*carillonMemory
}

// Memory is about how much memory the members of all regions keep, in bytes.
func (s RegionsSpec) Memory() (bytes int64) {
	for _, name := range s.names() {
		bytes += s.of(name).withDefaults().Memory()
	}
	return bytes
}

// Fits is nil if this machine has room for so many bytes beside what runs on it already, or does
// not tell; else it says how many are free.
func Fits(bytes int64) error {
	text, err := os.ReadFile(memoryInfo)
	if err != nil {
		return nil //nolint:nilerr // of another system, which does not tell
	}
	return fits(bytes, string(text))
}

// fits is Fits by the text of /proc/meminfo.
func fits(bytes int64, info string) error {
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(line, availableMemory)
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if free := kib << 10; err == nil && free < bytes {
			return fmt.Errorf("the members need about %.1f GiB of memory, and %.1f GiB are free", gibibytes(bytes), gibibytes(free))
		}
	}
	return nil
}

func gibibytes(bytes int64) float64 { return float64(bytes) / (1 << 30) }
