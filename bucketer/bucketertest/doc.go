// Package bucketertest is what the tests of bucketer and the packages below it stand on: a store in
// memory that counts its calls and has the faults that a test asks for.
package bucketertest
