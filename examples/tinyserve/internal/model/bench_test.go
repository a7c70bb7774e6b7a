package model

import (
	"fmt"
	"testing"
)

// tinyConfig is examples/models/tiny/config.json.
func tinyConfig(t testing.TB) Config {
	t.Helper()
	c, err := ReadConfig("../../../models/tiny")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sequences returns n sequences' block tables over a cache of their own.
func sequences(m *Model, n, positions int) (*KV, [][]int32) {
	per := (positions + BlockSize - 1) / BlockSize
	tables := make([][]int32, n)
	for i := range tables {
		for b := range per {
			tables[i] = append(tables[i], int32(i*per+b))
		}
	}
	return NewKV(m, n*per), tables
}

// BenchmarkDecode is one token of each of n sequences with 192 before it.
func BenchmarkDecode(b *testing.B) {
	m := New(tinyConfig(b))
	for _, kernel := range []string{"naive", "blocked"} {
		for _, n := range []int{1, 4, 8} {
			b.Run(fmt.Sprintf("%s/batch%d", kernel, n), func(b *testing.B) {
				kv, tables := sequences(m, n, 193)
				r := NewRunner(m, kv, Kernels[kernel], 1)
				pieces := make([]Piece, n)
				for i := range pieces {
					pieces[i] = Piece{Tokens: []int32{300}, Start: 192, Blocks: tables[i], Logits: true}
				}
				for b.Loop() {
					r.Step(pieces)
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// BenchmarkPrefill is a prompt of 256 tokens, in chunks.
func BenchmarkPrefill(b *testing.B) {
	m := New(tinyConfig(b))
	prompt := make([]int32, 256)
	for i := range prompt {
		prompt[i] = int32(5 + i)
	}
	for _, kernel := range []string{"naive", "blocked"} {
		for _, chunk := range []int{32, 256} {
			b.Run(fmt.Sprintf("%s/chunk%d", kernel, chunk), func(b *testing.B) {
				kv, tables := sequences(m, 1, len(prompt))
				r := NewRunner(m, kv, Kernels[kernel], 1)
				for b.Loop() {
					for at := 0; at < len(prompt); at += chunk {
						r.Step([]Piece{{Tokens: prompt[at : at+chunk], Start: at, Blocks: tables[0]}})
					}
				}
				b.ReportMetric(float64(len(prompt)*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
