package wire

import (
	"testing"
	"time"
)

// BenchmarkFeed is one event as vLLM sends it, on each of a thousand streams in
// turn.
func BenchmarkFeed(b *testing.B) {
	text := []byte(`data: {"id":"cmpl-6f0c8d2a4b1e4f7c9d3e5a7b","object":"text_completion","created":1796037043,"model":"sim",` +
		`"choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}]}` + "\n\n")
	answers := make([]Answer, 1000)
	for i := range answers {
		answers[i] = NewAnswer(Completions, []string{"sim"}, 1<<16)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		answers[i%len(answers)].Feed(time.Duration(i), text)
	}
}
