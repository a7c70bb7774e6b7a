package read

import (
	"encoding/json"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/scan"
)

// Meta is what the file says about itself. Fields it does not say are zero,
// with Rank -1.
type Meta struct {
	Path       string   `json:"path"`
	SHA256     string   `json:"sha256,omitempty"` // of the file as stored; File sets it
	Packed     int64    `json:"packed_bytes,omitempty"`
	Raw        int64    `json:"raw_bytes"`
	Base       int64    `json:"base_ns,omitempty"` // absolute ns = Base + time; 0: times are absolute
	First      int64    `json:"first_ns"`          // earliest time of any event, on the file's clock
	Rank       int      `json:"rank"`
	World      int      `json:"world,omitempty"`
	Devices    []Device `json:"devices,omitempty"`
	WithStack  bool     `json:"with_stack"`
	WithShapes bool     `json:"with_shapes"`
	ROCm       bool     `json:"rocm,omitempty"`
}

// Device is one entry of deviceProperties.
type Device struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Memory int64  `json:"totalGlobalMem"`
	Major  int    `json:"computeMajor"`
	Minor  int    `json:"computeMinor"`
	SMs    int    `json:"numSms"`
}

// meta takes one top-level value. A value of an unexpected type is said and
// left out: the events do not depend on it.
func (b *builder) meta(key string, value []byte) {
	m := &b.t.Meta
	ok := true
	switch key {
	case "baseTimeNanoseconds":
		if string(value) != "null" {
			m.Base, ok = scan.Integer(value)
		}
	case "deviceProperties":
		ok = json.Unmarshal(value, &m.Devices) == nil
	case "distributedInfo":
		var d struct {
			Rank  *int `json:"rank"`
			World int  `json:"world_size"`
		}
		ok = json.Unmarshal(value, &d) == nil
		if d.Rank != nil {
			m.Rank = *d.Rank
		}
		m.World = d.World
	case "with_stack":
		m.WithStack = truthy(value)
	case "record_shapes":
		m.WithShapes = truthy(value)
	default:
		if strings.HasPrefix(key, "hip_") || strings.HasPrefix(key, "roctracer") || strings.HasPrefix(key, "rocprof") {
			m.ROCm = true
		}
	}
	if !ok {
		b.warn("The metadata %q is not what a profiler writes and was left out.", key)
	}
}

func truthy(value []byte) bool {
	s := string(scan.Unquote(value))
	return s == "1" || s == "true"
}
