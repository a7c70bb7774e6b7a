package pool

import (
	"strings"
	"testing"
)

type unit struct {
	Need
	name string
}

func (u *unit) Asks() *Need { return &u.Need }

// TestSchedule plays what a person would write down: a line is what happens to
// the host, and who may start then.
func TestSchedule(t *testing.T) {
	one := func(name string, n Need) *unit { return &unit{n, name} }
	units := map[string]*unit{}
	for _, u := range []*unit{
		one("plain1", Need{Urgency: 1, First: 1}), one("plain2", Need{Urgency: 1, First: 2}), one("plain3", Need{Urgency: 9, First: 3}),
		one("gpu0", Need{GPUs: []string{"0"}, Urgency: 5, First: 4}), one("gpu01", Need{GPUs: []string{"0", "1"}, Urgency: 7, First: 5}),
		one("gpu1", Need{GPUs: []string{"1"}, Urgency: 2, First: 6}), one("quiet", Need{Quiet: true, Urgency: 3, First: 7}),
		one("late", Need{Turn: 1, Urgency: 100, First: 0}),
	} {
		units[u.name] = u
	}
	hs := Hosts[*unit]{Slots: 2}
	h := hs.Get("")
	if hs.Get("") != h || len(hs.All()) != 1 {
		t.Fatal("one name is one host")
	}
	for _, step := range []struct{ offer, give, want string }{
		{"plain1 plain2 plain3 gpu0 late", "", "plain3 gpu0 plain1"}, // two slots, and the GPU needs none
		{"", "plain1", "plain2"},                                     // not late: its turn is later
		{"gpu01 gpu1", "", ""},                                       // gpu01 waits for 0, and keeps 1 from gpu1
		{"quiet", "gpu0", "gpu01"},
		{"", "gpu01", ""},       // quiet waits for all, and gpu1 for quiet
		{"", "plain3", ""},      // plain2 still runs
		{"", "plain2", "quiet"}, // alone
		{"", "quiet", "gpu1 late"},
	} {
		if step.give != "" {
			h.Give(units[step.give])
		}
		for name := range strings.FieldsSeq(step.offer) {
			h.Offer(units[name])
		}
		var got []string
		for _, u := range h.Admit() {
			got = append(got, u.name)
		}
		if strings.Join(got, " ") != step.want {
			t.Fatalf("after %+v: %v may start", step, got)
		}
	}
}

func TestWhatIsLostIsGone(t *testing.T) {
	hs := Hosts[*unit]{Slots: 1}
	h := hs.Get("a")
	dead := &unit{Need{GPUs: []string{"0"}}, "dead"}
	h.Offer(dead)
	h.Admit()
	same, other, quiet := &unit{Need{GPUs: []string{"0", "1"}}, "same"}, &unit{Need{GPUs: []string{"1"}}, "other"}, &unit{Need{Quiet: true}, "quiet"}
	for _, u := range []*unit{same, other, quiet} {
		h.Offer(u)
	}
	h.Give(dead)
	doomed := map[*unit]bool{}
	for _, u := range h.Lose(dead, "node.x") {
		doomed[u] = true
	}
	if len(doomed) != 2 || !doomed[same] || !doomed[quiet] || h.Lost() != "node.x" || !h.Doomed(same) || h.Doomed(other) {
		t.Errorf("doomed %v, lost %q", doomed, h.Lost())
	}
	if start := h.Admit(); len(start) != 1 || start[0] != other {
		t.Errorf("%v may start, want the other GPU's", start)
	}
}
