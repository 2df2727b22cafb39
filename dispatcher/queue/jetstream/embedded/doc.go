// Package embedded is a NATS server in this process: for `carillon dev`, and for tests.
//
// It listens on no port unless it is told to; connect to it through jetstream.Config.Server. Such a
// connection buffers what is written, as a socket does (behind.go).
package embedded
