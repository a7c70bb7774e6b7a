//go:build race

package lang

// raceDetector: Load starts no goroutine, so hostile inputs have nothing for
// the detector to find, and it makes them ten times slower.
const raceDetector = true
