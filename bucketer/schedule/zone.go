package schedule

import (
	"archive/zip"
	_ "embed" // the zone data
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// zoneData is the IANA time zone database as the Go distribution ships it (lib/time/zoneinfo.zip);
// zonesVersion is the release it was made from (DATA in lib/time/update.bash beside it). Both are
// replaced together, and a test compares them with the toolchain's.
//
// It is embedded here rather than taken from time/tzdata because time.LoadLocation asks the
// environment (ZONEINFO) and the system first: two nodes would then plan two different times for
// one occurrence.
//
//go:embed zoneinfo.zip
var zoneData string

const zonesVersion = "2025c"

// ZonesVersion returns the release of the IANA time zone database that all schedules follow, such
// as "2025c".
func ZonesVersion() string { return zonesVersion }

// zone is a time zone, as what its clocks do from 1970 to 2399. It never changes.
type zone struct {
	name  string
	spans []span // in order; the first begins in 1970, the last ends in 2400
}

// span is a stretch of instants with one offset: the clock on the wall shows instant + offset.
type span struct {
	start  int64 // its first instant, s since the Unix epoch
	offset int64 // s
	// What the clock shows before fresh it has shown in an earlier span, what it shows from again
	// on it will show in a later one.
	fresh, again wall
}

// end returns the first instant after span i.
func (z *zone) end(i int) int64 {
	if i+1 < len(z.spans) {
		return z.spans[i+1].start
	}
	return horizonSeconds
}

// spanAt returns the index of the span with the instant; before 1970 it is the first.
func (z *zone) spanAt(instant int64) int {
	return max(0, sort.Search(len(z.spans), func(i int) bool { return z.spans[i].start > instant })-1)
}

// zones are those that were used; there are some 600.
var zones sync.Map // name → *zone

// zoneFiles are the files of the embedded data, by zone.
var zoneFiles = sync.OnceValue(func() map[string]*zip.File {
	r, err := zip.NewReader(strings.NewReader(zoneData), int64(len(zoneData)))
	if err != nil {
		// cannot happen to the file that the tests have read
		panic("embedded zone data: " + err.Error())
	}
	files := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		if !strings.HasSuffix(f.Name, "/") {
			files[f.Name] = f
		}
	}
	return files
})

// zoneNamed returns the zone with an IANA name, spelled as there; "" is UTC.
func zoneNamed(name string) (*zone, bool) {
	if name == "" {
		name = "UTC"
	}
	if z, ok := zones.Load(name); ok {
		return z.(*zone), true
	}
	loc, ok := Location(name)
	if !ok {
		return nil, false
	}
	z, _ := zones.LoadOrStore(name, newZone(name, loc))
	return z.(*zone), true
}

// Location returns the zone with an IANA name, spelled as there, from the embedded data; false:
// there is none.
func Location(name string) (*time.Location, bool) {
	file, ok := zoneFiles()[name]
	if !ok {
		return nil, false
	}
	data, err := read(file)
	if err != nil {
		return nil, false
	}
	loc, err := time.LoadLocationFromTZData(name, data)
	return loc, err == nil
}

func read(file *zip.File) (data []byte, err error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := r.Close(); err == nil {
			err = closed
		}
	}()
	return io.ReadAll(r)
}

// spelling returns the name of the zone that is written like name but for upper and lower case.
func spelling(name string) (string, bool) {
	for known := range zoneFiles() {
		if strings.EqualFold(known, name) {
			return known, true
		}
	}
	return "", false
}

// newZone reads off what the clocks of loc do.
func newZone(name string, loc *time.Location) *zone {
	z := &zone{name: name}
	for at := int64(0); at < horizonSeconds; {
		t := time.Unix(at, 0).In(loc)
		_, offset := t.Zone()
		if n := len(z.spans); n == 0 || z.spans[n-1].offset != int64(offset) {
			z.spans = append(z.spans, span{start: at, offset: int64(offset)})
		}
		_, end := t.ZoneBounds()
		if end.IsZero() {
			break
		}
		// Where a rule repeats for ever, ZoneBounds also gives the ends of years, and on the last
		// day of a leap year one that has passed.
		at = max(end.Unix(), at+secondsPerDay/2)
	}
	z.spans = slices.Clip(z.spans)

	shown := wall(math.MinInt64)
	for i := range z.spans {
		z.spans[i].fresh = shown
		shown = max(shown, wall(z.end(i)+z.spans[i].offset))
	}
	coming := wall(math.MaxInt64)
	for i := len(z.spans) - 1; i >= 0; i-- {
		z.spans[i].again = coming
		coming = min(coming, wall(z.spans[i].start+z.spans[i].offset))
	}
	return z
}
