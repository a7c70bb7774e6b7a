// Package garbage sets when a program of ours collects its garbage. Most of
// them are short, and live from less memory than a first collection costs time:
// a tenth of a plan of 10,000 nodes.
package garbage

import (
	"runtime"
	"runtime/debug"
)

const (
	// first is the heap at which the first collection starts, in percent of
	// the 4 MB that Go has without a word: 64 MB.
	first = 1600
	// growth is how much the heap may grow from then on, in percent of what
	// lives: a plan of 100,000 nodes stays below 300 MB.
	growth = 150
)

// Spare is called once, at the start of a program.
func Spare() {
	debug.SetGCPercent(first)
	// Unreachable from here on, so what follows its end is after the first
	// collection. It has a pointer, as small things without one share memory.
	runtime.AddCleanup(&struct{ p *int }{}, func(percent int) { debug.SetGCPercent(percent) }, growth)
}
