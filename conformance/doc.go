// Package conformance holds suites and whole-program tests: the examples run
// for real, the engine and the runner killed at seeded points, wrong servers,
// the commands of the documents, and the table of rules. It is used by tests
// only and offers nothing to other rooms.
package conformance
