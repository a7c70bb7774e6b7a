package main

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/event"
)

func TestACtrlCSaysWhatItLeaves(t *testing.T) {
	const cell = `bench.vllm["baseline"].chat.c4`
	left := func(n int) map[string]int { return map[string]int{"left": n} }
	for want, e := range map[string]event.Event{
		"! interrupt  what runs now finishes, nothing more begins; once more to stop it\n": {Type: event.Draining},
		"! " + cell + "  finishes; left to the next apply: 5 more nodes of its task\n":     {Type: event.TaskDraining, Task: "t-1", Node: cell, Counts: left(5)},
		"! " + cell + "  finishes; left to the next apply: 1 more node of its task\n":      {Type: event.TaskDraining, Task: "t-1", Node: cell, Counts: left(1)},
		"! " + cell + "  finishes; it is the last of its task\n":                           {Type: event.TaskDraining, Task: "t-1", Node: cell, Counts: left(0)},
		"! t-1  ends; left to the next apply: 6 nodes\n":                                   {Type: event.TaskDraining, Task: "t-1", Counts: left(6)},
		"! t-1  no route\n":                        {Type: event.TaskDraining, Task: "t-1", Text: "no route"},
		"! " + cell + "  left to the next apply\n": {Type: event.NodeFinished, Node: cell, State: "cancelled", Class: "interrupted", Reason: "left to the next apply"},
		"! " + cell + "  cancelled\n":              {Type: event.NodeFinished, Node: cell, State: "cancelled"},
	} {
		var out strings.Builder
		p := &progress{w: &out}
		p.event(e)
		if out.String() != want {
			t.Errorf("%s: %q, want %q", e.Type, out.String(), want)
		}
	}
}
