// Package apitest is a Carillon in memory for tests of the load tools: it speaks the part of the API that they use, runs one-off jobs
// on time, and goes wrong where it is told to. It is no reference for how Carillon behaves inside.
package apitest
