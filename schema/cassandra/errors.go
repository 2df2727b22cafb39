package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// mode is what an unanswered request may have done.
type mode int

const (
	reading     mode = iota // nothing
	writing                 // written; sending it again is right
	conditional             // written; sending it again is not
)

// translate wraps an error of the driver in the sentinel of schema that it means. The driver's
// error stays within.
func translate(err error, m mode) error {
	if err == nil {
		return nil
	}
	kind := classify(err, m)
	if kind == nil {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// classify returns the sentinel of schema that err is a case of. nil: it is a fault of ours or of
// the configuration.
func classify(err error, m mode) error {
	silent := schema.ErrUnavailable // no answer, or one that does not tell what was done
	if m != reading {
		silent = schema.ErrUnknown
	}
	var request gocql.RequestError
	if errors.As(err, &request) {
		switch request.Code() {
		case gocql.ErrCodeBootstrapping:
			return schema.ErrUnavailable // answered before anything was sent to a replica
		case gocql.ErrCodeUnavailable:
			if m == conditional && !unproposed(err) {
				return schema.ErrUnknown
			}
			return schema.ErrUnavailable // as above
		case gocql.ErrCodeOverloaded, gocql.ErrCodeServer, gocql.ErrCodeReadTimeout, gocql.ErrCodeReadFailure,
			gocql.ErrCodeWriteTimeout, gocql.ErrCodeWriteFailure, gocql.ErrCodeCASWriteUnknown, gocql.ErrCodeCDCWriteFailure:
			return silent
		case gocql.ErrCodeInvalid:
			if strings.Contains(strings.ToLower(request.Message()), "too large") {
				return schema.ErrTooLarge
			}
		}
		return nil
	}
	var marshal gocql.MarshalError
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return schema.ErrNotFound
	case errors.Is(err, gocql.ErrFrameTooBig):
		return schema.ErrTooLarge
	case unsent(err):
		return schema.ErrUnavailable
	case errors.As(err, &marshal):
		return nil
	}
	return silent // time-outs, broken connections, contexts that ended
}

// unproposed reports whether err, an "unavailable" of a conditional write, came before a replica
// could accept the write.
//
// A conditional write needs replicas twice, and the answer says for which of the two they were
// missing:
//
//	consensus   a serial level   nothing was accepted
//	commit      LOCAL_QUORUM     the write was accepted; whoever works on the row next completes it
func unproposed(err error) bool {
	var unavailable *gocql.RequestErrUnavailable
	return errors.As(err, &unavailable) &&
		(unavailable.Consistency == gocql.Consistency(gocql.LocalSerial) || unavailable.Consistency == gocql.Consistency(gocql.Serial))
}

// readAgain adds to the outcome of a write that is unknown why reading did not tell it either.
func readAgain(unknown, err error) error {
	return errors.Join(unknown, errors.New("read again: "+err.Error()))
}

// unsent reports whether err says that the driver sent nothing.
func unsent(err error) bool {
	for _, e := range []error{
		gocql.ErrNoConnections, gocql.ErrNoStreams, gocql.ErrNoConnectionsStarted,
		gocql.ErrNoHosts, gocql.ErrSessionClosed, gocql.ErrUnavailable,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// repeatable reports whether a request in mode m that failed with the translated error may be sent
// again.
func repeatable(err error, m mode) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, gocql.ErrSessionClosed) {
		return false
	}
	return errors.Is(err, schema.ErrUnavailable) || m != conditional && errors.Is(err, schema.ErrUnknown)
}

// result is the metrics' name for how a statement ended.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, schema.ErrNotFound):
		return "not_found"
	case errors.Is(err, schema.ErrConflict):
		return "conflict"
	case errors.Is(err, schema.ErrUnknown):
		return "unknown"
	case errors.Is(err, schema.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, schema.ErrTooLarge):
		return "too_large"
	}
	return "error"
}

// results are all that result returns.
var results = []string{"ok", "not_found", "conflict", "unknown", "unavailable", "too_large", "error"}
