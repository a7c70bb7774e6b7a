package simserve

import "strings"

// api is the wire form of a request and its answer.
type api int

const (
	completions api = iota
	chat
	sglang   // SGLang's own /generate
	llamacpp // llama.cpp's own /completion
)

// usage is where the counts of an answer stand: the native forms leave no
// choice.
func (a api) usage(asked Usage) Usage {
	switch a {
	case sglang:
		return UsageToken
	case llamacpp:
		return UsageFinish
	}
	return asked
}

// native puts a script of completions into a native form, each event into one.
// Errors, comments and broken bytes stay as they are: all forms share them.
// SGLang's form names no model, so that AnswersModel changes nothing in it.
func (p *script) native(a api, q request, model string, fault Fault) {
	if a != sglang && a != llamacpp {
		return
	}
	n := native{q: q, model: model, counts: fault != NoUsage}
	var lines []line
	for _, l := range p.lines {
		choices, is := l.body["choices"].([]object)
		switch {
		case is && a == sglang:
			l.body = n.generated(l.body, choices)
		case is && fault == NoDone && isLast(l.body, choices):
			continue // its finish reason and its end are one event
		case is:
			l.body = n.completed(l.body, choices)
		case l.raw == done && a == llamacpp:
			if n.dones++; n.dones == 1 {
				continue // it has none: an error or the event with "stop" was the last one
			}
			l.body, l.raw = n.last, ""
		}
		lines = append(lines, l)
	}
	p.lines = lines
}

// native is the state of an answer that is put into another form.
type native struct {
	q      request
	model  string
	counts bool   // the events count tokens
	text   string // so far
	last   object // the event that ended it
	dones  int
}

// tokens is the number of tokens of a text of this server.
func tokens(text string) int { return strings.Count(text, " t") }

// isLast says whether an event of completions ends llama.cpp's answer: it has a
// finish reason, or the counts where a fault has left that out.
func isLast(event object, choices []object) bool {
	return len(choices) > 0 && (choices[0]["finish_reason"] != nil || counted(event))
}

func counted(event object) bool {
	u, is := event["usage"].(object)
	return is && u != nil
}

// said are the counts of an event: its own, else those of the text so far.
func (n *native) said(event object) (input, output, cached int) {
	if counted(event) {
		u := event["usage"].(object)
		return u["prompt_tokens"].(int), u["completion_tokens"].(int), u["prompt_tokens_details"].(object)["cached_tokens"].(int)
	}
	return n.q.input, tokens(n.text), n.q.cached
}

// generated is SGLang's event: the whole text so far, and the counts with it.
func (n *native) generated(event object, choices []object) object {
	out, meta := object{}, object{"id": "simserve", "finish_reason": nil}
	for _, c := range choices {
		n.text += c["text"].(string)
		if i := c["index"].(int); i > 0 {
			out["index"] = i
		}
		if why := c["finish_reason"]; why != nil {
			meta["finish_reason"] = object{"type": why}
		}
	}
	if n.counts {
		meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"] = n.said(event)
	}
	out["text"], out["meta_info"] = n.text, meta
	return out
}

// completed is llama.cpp's event: the new text, and "stop" on the last one.
func (n *native) completed(event object, choices []object) object {
	out := object{"index": 0, "content": "", "stop": false, "model": n.model}
	for _, c := range choices {
		n.text += c["text"].(string)
		out["index"], out["content"] = c["index"], c["text"]
	}
	input, output, cached := n.said(event)
	if n.counts {
		out["tokens_evaluated"], out["tokens_predicted"] = input, output
	}
	if counted(event) {
		out["timings"] = object{"cache_n": cached}
	}
	if isLast(event, choices) {
		why := choices[0]["finish_reason"]
		if stop, known := map[any]string{"length": "limit", "stop": "eos", nil: "none"}[why]; known {
			why = stop
		}
		out["stop"], out["stop_type"] = true, why
		n.last = out
	}
	return out
}
