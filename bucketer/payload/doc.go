// Package payload holds payloads to the JSON Schema that their task states: JSON Schema 2020-12,
// where format and the content keywords are annotations, patterns have the syntax of Go (RE2), and
// nothing refers to what lies outside the schema.
//
// # What a tenant may cost
//
// A schema is a program that a tenant writes and we run. So:
//
//  1. Nothing is fetched: a reference out of the schema is a fault of the schema. So are
//     $dynamicRef and other drafts.
//  2. A schema has at most MaxSchema bytes, maxNodes values, maxDepth levels, and patterns of
//     maxProgram instructions together.
//  3. Checking takes work that is counted before it is done: each subschema that is held against a
//     value, each value that is compared, each step of a pattern. The work of one payload is
//     bounded by its size (meter.begin); what would take more is refused. Otherwise allOf over allOf
//     would have a hundred bytes of schema double the work thirty times.
//  4. Numbers have at most maxDigits characters and a decimal exponent of at most maxExponent: they
//     are compared exactly, and 1e999999 would be written out for that.
//  5. Faults name no value of the payload, which may hold secrets.
//
// # Files
//
//	schema.go  compiles a schema, checks a payload
//	meter.go   bounds what that may cost
//	fault.go   faults with their places
//	cache.go   compiled schemas
package payload
