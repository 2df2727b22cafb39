package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	consistencyMost  = 0x0004  // QUORUM; of what a node has for itself alone it is the node
	maxCQLFrame      = 1 << 20 // bytes of an answer
	cqlHeaderBytes   = 9
	simpleTypesBelow = 0x0020 // option ids from here on carry more type information
)

// queryNode sends statement to the node at addr ("ip:port"), the way security says (nil: openly),
// and returns the cells of the answer's rows; a null cell is nil. Consistency is QUORUM. Columns
// must be of simple types. An answer that is not rows returns none.
func queryNode(ctx context.Context, addr string, security *Security, statement string) ([][][]byte, error) {
	conn, err := security.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
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
		return nil, fmt.Errorf("start up: %w", err)
	}
	if op != opReady && op != opAuthSuccess {
		return nil, fmt.Errorf("start up: answer %#x, want READY (does the node ask for a password?)", op)
	}

	query := binary.BigEndian.AppendUint32(nil, uint32(len(statement)))
	query = append(query, statement...)
	query = binary.BigEndian.AppendUint16(query, consistencyMost)
	query = append(query, 0) // no flags: no values, the server's page size
	op, body, err := exchange(conn, opQuery, query)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if op != opResult {
		return nil, fmt.Errorf("query: answer %#x, want RESULT", op)
	}
	rows, err := parseRows(body)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	return rows, nil
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

func parseRows(body []byte) ([][][]byte, error) {
	r := &reader{buf: bytes.NewBuffer(body)}
	if r.int32() != resultRows {
		return nil, r.err
	}
	flags, columns := r.int32(), int(r.int32())
	if r.err == nil && columns < 1 {
		return nil, fmt.Errorf("rows of %d columns", columns)
	}
	if flags&flagMorePages != 0 {
		return nil, errors.New("the answer has more than one page")
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
			return nil, r.err
		}
		if typ == 0 || typ >= simpleTypesBelow {
			return nil, fmt.Errorf("column %q is not of a simple type (%#x)", name, typ)
		}
	}
	var rows [][][]byte
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
			return nil, r.err
		}
		rows = append(rows, row)
	}
	return rows, r.err
}
