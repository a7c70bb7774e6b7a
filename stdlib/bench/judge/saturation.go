package judge

import (
	"math"
	"slices"
)

// Point is one request of an open-loop cell, in the order of sending.
type Point struct {
	Sent     float64 // s
	InFlight float64 // when it was sent, itself included
	TTFT     float64 // s
}

// Saturated says whether the queue grows without bound: over the last two
// thirds of the points, requests in flight and time to the first token must
// both rise by a line that is steeper than twenty times its error (sixty times
// with fewer than 300 points: then the load is about twice what the server
// takes), and the lowest value of the last quarter must be above the highest of
// the first. The line alone is steep by chance too often, since neighbours in a
// queue are not independent; but a queue that is stable comes down again.
func Saturated(points []Point) bool {
	tail := points[len(points)/3:]
	steep := 20.0
	switch {
	case len(tail) < 30:
		return false
	case len(tail) < 300:
		steep = 60
	}
	var at, flight, ttft []float64
	for _, p := range tail {
		at, flight, ttft = append(at, p.Sent), append(flight, p.InFlight), append(ttft, p.TTFT)
	}
	return rises(at, flight, steep) && rises(at, ttft, steep)
}

func rises(x, y []float64, steep float64) bool {
	slope, err := line(x, y)
	if !(slope > steep*err) {
		return false
	}
	quarter := len(y) / 4
	return slices.Min(y[len(y)-quarter:]) > slices.Max(y[:quarter])
}

// line is the least-squares slope of y over x with its standard error.
func line(x, y []float64) (slope, err float64) {
	n := float64(len(x))
	mx, my := 0.0, 0.0
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	xx, xy := 0.0, 0.0
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	if xx == 0 {
		return 0, math.Inf(1)
	}
	slope = xy / xx
	rest := 0.0
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		rest += d * d
	}
	return slope, math.Sqrt(rest / (n - 2) / xx)
}
