package request

import (
	"fmt"

	"carillon.dev/carillon/bucketer"
)

// NotJSONError says that a body cannot be read as JSON at all (400).
type NotJSONError struct {
	Offset int    // bytes before the place where reading ended
	What   string // what was found there
}

// Error returns what was found, and where.
func (e *NotJSONError) Error() string {
	return fmt.Sprintf("not JSON: %s at byte %d", e.What, e.Offset)
}

// maxEcho is how many bytes of a wrong value are said back.
const maxEcho = 100

func echo(value []byte) string { return string(bucketer.Shorten(value, maxEcho)) }

// fault notes that node i is wrong and says its value back, unless it is large.
func (d *fields) fault(i int32, format string, args ...any) {
	if d.full() {
		return
	}
	f := bucketer.Fault{Location: d.doc.location(i), Message: fmt.Sprintf(format, args...)}
	switch n := &d.doc.nodes[i]; n.kind {
	case kindString:
		f.Value = echo(d.doc.stringOf(i))
	case kindNumber:
		f.Value = echo(d.doc.raw(i))
	case kindTrue, kindFalse:
		f.Value = n.kind == kindTrue
	}
	d.faults = append(d.faults, f)
}

// faultQuietly notes that node i is wrong without saying its value back: it may hold a secret.
func (d *fields) faultQuietly(i int32, format string, args ...any) {
	if !d.full() {
		d.faults = append(d.faults, bucketer.Fault{Location: d.doc.location(i), Message: fmt.Sprintf(format, args...)})
	}
}

// faultAt notes that something is wrong that has no node, such as a field that is missing.
func (d *fields) faultAt(location, format string, args ...any) {
	if !d.full() {
		d.faults = append(d.faults, bucketer.Fault{Location: location, Message: fmt.Sprintf(format, args...)})
	}
}

// require notes that object i lacks a member that it must have.
func (d *fields) require(i int32, stated bool, name string) {
	if !stated && d.is(i, kindObject) {
		d.faultAt(d.doc.location(i)+"."+name, "is missing")
	}
}

// pathFaults returns what is wrong with a name in the path of a request.
func pathFaults(location, name string) bucketer.Faults {
	what := bucketer.NameFault(name)
	if what == "" {
		return nil
	}
	return bucketer.Faults{{Location: location, Message: what, Value: echo([]byte(name))}}
}

// full reports whether as many faults are noted as may be, and says so once.
func (d *fields) full() bool {
	if len(d.faults) == maxFaults {
		d.faults = append(d.faults, bucketer.Fault{Location: "body", Message: "has more faults than are listed here"})
	}
	return len(d.faults) > maxFaults
}
