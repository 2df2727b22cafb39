// Package embedded is a NATS server in this process: for `carillon dev`, and for tests.
//
// It listens on no port unless it is told to; connect to it through jetstream.Config.Server.
package embedded
