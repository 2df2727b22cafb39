// Package certs keeps the certificates with which the API is served, and those that its clients
// show.
//
// A Server is made of files, and made anew of them while it serves (Replace). New connections have
// the new certificates; those that are open keep what they began with.
//
// # Invariants
//
//  1. Files that cannot be used change nothing: Replace returns why, and the certificates before
//     stay in force.
//  2. A client is verified at each connection, by the authorities of ClientCA as they are then: no
//     session of TLS is resumed.
//  3. No connection is older than TLS 1.2.
//
// There is no HTTP/2: imports are answered while their body is read, as HTTP/1.1 does it.
package certs
