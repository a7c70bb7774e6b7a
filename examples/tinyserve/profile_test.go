package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProfile takes a profile of one request whose steps are known: a prompt
// of 101 tokens read in chunks of 64, the second of which gives the first
// token, then two more.
func TestProfile(t *testing.T) {
	web := start(t, usual)
	if status, _, _ := call(t, "POST", web.URL+"/stop_profile", ""); status != 400 {
		t.Errorf("stopping what was not started: %d", status)
	}
	began := time.Now()
	if status, _, body := call(t, "POST", web.URL+"/start_profile", ""); status != 200 {
		t.Fatalf("start: %d %s", status, body)
	}
	if status, _, _ := call(t, "POST", web.URL+"/start_profile", ""); status != 400 {
		t.Errorf("starting twice: %d", status)
	}
	ids := `{"prompt":[` + strings.Repeat("300,", 100) + `301],"max_tokens":3,"temperature":0,"ignore_eos":true}`
	post(t, web.URL+"/v1/completions", ids)
	status, _, body := call(t, "POST", web.URL+"/stop_profile", "")
	took := time.Since(began)
	var said struct{ Trace string }
	if err := json.Unmarshal([]byte(body), &said); err != nil || status != 200 {
		t.Fatalf("stop: %d %s", status, body)
	}
	trace := readTrace(t, said.Trace)

	var steps []string
	var kernels float64
	calls := map[int]float64{} // start of each launch
	names := map[string]int{}
	shapes := map[string]map[string]bool{}
	for _, e := range trace {
		switch e.Cat {
		case "user_annotation":
			steps = append(steps, e.Name)
		case "cpu_op":
			if shapes[e.Name] == nil {
				shapes[e.Name] = map[string]bool{}
			}
			shapes[e.Name][fmt.Sprint(e.Args.Dims)] = true
		case "cuda_runtime":
			calls[e.Args.Correlation] = e.TS
		case "kernel":
			kernels += e.Dur
			names[e.Name]++
			if at, ok := calls[e.Args.Correlation]; !ok || at > e.TS {
				t.Errorf("kernel %s has no launch before it", e.Name)
			}
		}
	}
	want := []string{"execute_context_1(64)_generation_0(0)", "execute_context_1(37)_generation_0(0)",
		"execute_context_0(0)_generation_1(1)", "execute_context_0(0)_generation_1(1)"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
	// Four products a layer and step, and the head's.
	if layers := names["paged_attention"] / 4; layers < 1 || names["matmul"] != 4*(4*layers+1) {
		t.Errorf("kernels %v", names)
	}
	// The model's config.json: hidden size 128, two layers of it beside the rest
	// of a step are read in chunks of 64 and 37 tokens, then one by one.
	for _, rows := range []int{64, 37, 1} {
		if want := fmt.Sprintf("[[%d 128] [128 128]]", rows); !shapes["tinyserve::o_proj"][want] {
			t.Errorf("shapes of o_proj are %v, without %s", shapes["tinyserve::o_proj"], want)
		}
	}
	if limit := float64(took.Microseconds()); kernels <= 0 || kernels > limit {
		t.Errorf("kernels took %.0f µs of the %.0f µs that the profile lasted", kernels, limit)
	}
}

type traced struct {
	Cat, Name string
	TS, Dur   float64
	Args      struct {
		Correlation int
		Dims        [][]int `json:"Input Dims"`
	}
}

func readTrace(t *testing.T, path string) []traced {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []traced `json:"traceEvents"`
	}
	if err := json.NewDecoder(z).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc.TraceEvents
}
