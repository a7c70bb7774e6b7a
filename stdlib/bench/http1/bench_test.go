package http1

import (
	"strings"
	"testing"
)

// BenchmarkMessage is one chunk on each of 4,000 connections in turn: more of
// their state than a core's caches hold.
func BenchmarkMessage(b *testing.B) {
	const streams = 4000
	conns := make([]*conn, streams)
	for i := range conns {
		conns[i] = &conn{}
		conns[i].msg.to = &none{}
		if err := conns[i].msg.feed([]byte(chunked)); err != nil {
			b.Fatal(err)
		}
	}
	event := []byte("be\r\n" + strings.Repeat("x", 0xbe) + "\r\n")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := conns[i*997%streams] // in no order that a prefetcher knows
		if k.took(event, nil) {
			b.Fatal(k.err)
		}
	}
}
