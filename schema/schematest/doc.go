// Package schematest holds the contract of the stores as a test suite, and decorators that make a
// store fail, repeat and count its calls.
//
// [Exercise] runs on every backend, and on each through [Faulty] below [Retrying]: what the
// contract says may be repeated is repeated, and the answers must be the same. [ExerciseDamage]
// overwrites stored cells; [Linear] looks for an order of what many claimers of a lease were told.
// The simulation uses [Faulty] with its own plan. Tests that bound the number of statements use
// [Counting].
//
// # Files
//
//	exercise.go                  the groups of rules, and what rules are made of
//	races.go calls.go            what holds of every conditional write, and of every method
//	documents.go                 tenants, tasks and rated tasks: one set of rules
//	around.go faulty.go retrying.go counting.go   the decorators
//	damage.go linear.go limits.go                 suites of their own; what limits and rates share
//	the others                   roles of schema.Store
package schematest
