// Package schematest holds the contract of the stores as a test suite, and the decorators that make a
// store fail, repeat and count.
//
// [Exercise] runs on every adapter, and on each through [Faulty] below [Retrying]: whatever the
// contract says may be repeated is repeated, and the answers must be the same. The simulation uses
// [Faulty] with its own plan; tests that bound the number of statements use [Counting].
package schematest
