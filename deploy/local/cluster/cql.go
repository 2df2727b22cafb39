package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// This file speaks just enough of the CQL binary protocol (version 4) to query one node: STARTUP, a
// password if the node asks for one, QUERY, and rows with cells as bytes. A driver would connect to
// the whole cluster, choose nodes and retry. Here the question is whether this one node is ready.
// Besides, only schema/cassandra imports a driver.

const (
	cqlRequest  = 0x04 // protocol version 4, from client to server
	cqlResponse = 0x84

	opError        = 0x00
	opStartup      = 0x01
	opReady        = 0x02
	opAuthenticate = 0x03
	opQuery        = 0x07
	opResult       = 0x08
	opAuthResponse = 0x0f
	opAuthSuccess  = 0x10

	resultRows       = 0x0002
	flagGlobalTable  = 0x0001
	flagMorePages    = 0x0002
	consistencyMost  = 0x0004 // QUORUM; of what a node has for itself alone it is the node
	consistencyHere  = 0x000a // LOCAL_ONE: one copy of the node's data centre
	flagPageSize     = 0x04   // of a query
	flagPagingState  = 0x08
	pageRows         = 200
	maxCQLFrame      = 1 << 20 // bytes of an answer
	cqlHeaderBytes   = 9
	simpleTypesBelow = 0x0020 // option ids from here on carry more type information
)

// queryNode sends statement to the node at addr ("ip:port"), the way security says (nil: openly),
// and returns the cells of the answer's rows; a null cell is nil. Consistency is QUORUM. Columns
// must be of simple types. An answer that is not rows returns none.
func queryNode(ctx context.Context, addr string, security *Security, statement string) ([][][]byte, error) {
	conn, err := connectNode(ctx, addr, security)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	query := queryOf(statement, consistencyMost)
	body, err := ask(conn, append(query, 0)) // no flags: no values, the server's page size
	if err != nil {
		return nil, err
	}
	rows, more, err := parseRows(body)
	if err == nil && more != nil {
		err = errors.New("the answer has more than one page")
	}
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	return rows, nil
}

// EachRow visits what a statement selects of the copies in the data centre of the cluster, page by
// page: each row is read of one copy, and no other is asked. Columns must be of simple types.
func (c *Cluster) EachRow(ctx context.Context, statement string, visit func(row [][]byte) error) error {
	return c.EachRowOf(ctx, c.CQL()[0], statement, visit)
}

// EachRowOf is EachRow through the node at an address that CQL names: of tables that each node has
// for itself, as those of system_views, they are that node's.
func (c *Cluster) EachRowOf(ctx context.Context, node, statement string, visit func(row [][]byte) error) error {
	conn, err := connectNode(ctx, node, c.Security())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var state []byte
	for {
		query := queryOf(statement, consistencyHere)
		if state == nil {
			query = append(query, flagPageSize)
		} else {
			query = append(query, flagPageSize|flagPagingState)
		}
		query = binary.BigEndian.AppendUint32(query, pageRows)
		if state != nil {
			query = binary.BigEndian.AppendUint32(query, uint32(len(state)))
			query = append(query, state...)
		}
		body, err := ask(conn, query)
		if err != nil {
			return err
		}
		rows, more, err := parseRows(body)
		if err != nil {
			return fmt.Errorf("read result: %w", err)
		}
		for _, row := range rows {
			if err := visit(row); err != nil {
				return err
			}
		}
		if state = more; state == nil {
			return nil
		}
	}
}

// connectNode opens a connection that takes queries until the deadline of ctx, or for 10 s.
func connectNode(ctx context.Context, addr string, security *Security) (net.Conn, error) {
	conn, err := security.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := greet(ctx, conn, security); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// greet bounds a connection and starts it up.
func greet(ctx context.Context, conn net.Conn, security *Security) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}

	var startup []byte
	startup = binary.BigEndian.AppendUint16(startup, 1) // one option
	startup = appendString(startup, "CQL_VERSION")
	startup = appendString(startup, "3.0.0")
	op, _, err := exchange(conn, opStartup, startup)
	if err == nil && op == opAuthenticate && security != nil {
		op, _, err = exchange(conn, opAuthResponse, security.plain())
	}
	if err != nil {
		return fmt.Errorf("start up: %w", err)
	}
	if op != opReady && op != opAuthSuccess {
		return fmt.Errorf("start up: answer %#x, want READY (does the node ask for a password?)", op)
	}
	return nil
}

// queryOf is a query without its flags.
func queryOf(statement string, consistency uint16) []byte {
	query := binary.BigEndian.AppendUint32(nil, uint32(len(statement)))
	query = append(query, statement...)
	return binary.BigEndian.AppendUint16(query, consistency)
}

// ask sends a query and returns the body of its result.
func ask(conn net.Conn, query []byte) ([]byte, error) {
	op, body, err := exchange(conn, opQuery, query)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if op != opResult {
		return nil, fmt.Errorf("query: answer %#x, want RESULT", op)
	}
	return body, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// exchange sends one frame and reads the one that answers it. An ERROR answer is an error.
func exchange(conn io.ReadWriter, op byte, body []byte) (byte, []byte, error) {
	frame := []byte{cqlRequest, 0, 0, 0, op} // no flags, stream 0
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	if _, err := conn.Write(append(frame, body...)); err != nil {
		return 0, nil, err
	}
	var header [cqlHeaderBytes]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(header[5:])
	if header[0] != cqlResponse || size > maxCQLFrame {
		return 0, nil, fmt.Errorf("not an answer in protocol version 4: % x", header)
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return 0, nil, err
	}
	if header[4] == opError {
		r := &reader{buf: bytes.NewBuffer(answer)}
		code, text := r.int32(), r.string()
		return 0, nil, fmt.Errorf("server error %#x: %s", code, text)
	}
	return header[4], answer, nil
}

var errShortFrame = errors.New("frame ends too early")

// A reader takes values off a frame; after the first fault every read answers zero and err is set.
type reader struct {
	buf *bytes.Buffer
	err error
}

func (r *reader) bytes(n int) []byte {
	if r.err == nil && (n < 0 || n > r.buf.Len()) {
		r.err = errShortFrame
	}
	if r.err != nil {
		return nil
	}
	return r.buf.Next(n)
}

func (r *reader) int32() int32 {
	if b := r.bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) string() string { return string(r.bytes(int(r.uint16()))) }

// parseRows returns the rows of a result, and how the next page is asked for; nil: this is the last.
func parseRows(body []byte) (rows [][][]byte, more []byte, err error) {
	r := &reader{buf: bytes.NewBuffer(body)}
	if r.int32() != resultRows {
		return nil, nil, r.err
	}
	flags, columns := r.int32(), int(r.int32())
	if r.err == nil && columns < 1 {
		return nil, nil, fmt.Errorf("rows of %d columns", columns)
	}
	if flags&flagMorePages != 0 {
		more = bytes.Clone(r.bytes(int(r.int32())))
	}
	if flags&flagGlobalTable != 0 {
		_, _ = r.string(), r.string() // keyspace, table
	}
	for range columns {
		if flags&flagGlobalTable == 0 {
			_, _ = r.string(), r.string()
		}
		name := r.string()
		typ := r.uint16()
		if r.err != nil {
			return nil, nil, r.err
		}
		if typ == 0 || typ >= simpleTypesBelow {
			return nil, nil, fmt.Errorf("column %q is not of a simple type (%#x)", name, typ)
		}
	}
	for range r.int32() {
		row := make([][]byte, 0, columns)
		for range columns {
			var cell []byte
			if n := r.int32(); n >= 0 {
				cell = r.bytes(int(n))
			}
			row = append(row, cell)
		}
		if r.err != nil {
			return nil, nil, r.err
		}
		rows = append(rows, row)
	}
	return rows, more, r.err
}
