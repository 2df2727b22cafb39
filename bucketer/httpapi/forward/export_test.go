package forward

import (
	"context"
	"net"
)

// DialBy has a Forwarder that has sent nothing yet connect by dial.
func DialBy(f *Forwarder, dial func(context.Context) (net.Conn, error)) {
	f.http.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}
