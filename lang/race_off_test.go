//go:build !race

package lang

const raceDetector = false
