package simserve

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// script is what is written for one request, decided before the first write.
type script struct {
	lines []line
	end   ending
}

// ending is what follows the last line.
type ending int

const (
	complete ending = iota
	cutOff          // the connection ends
	hang            // nothing more, until the client leaves
)

// line is one write: an event's body, or raw bytes of the stream.
type line struct {
	at    time.Duration // from the moment the request got its slot
	token bool
	body  object
	raw   string
}

func (l line) bytes() []byte {
	if l.body == nil {
		return []byte(l.raw)
	}
	b, err := json.Marshal(l.body)
	if err != nil {
		panic(fmt.Sprintf("simserve: encoding its own event: %v", err))
	}
	return fmt.Appendf(nil, "data: %s\n\n", b)
}

const done = "data: [DONE]\n\n"

// writer makes events of one answer.
type writer struct {
	chat  bool
	model string
}

// choice is an event with n tokens of one choice.
func (w writer) choice(index, n int) object {
	c := object{"index": index, "finish_reason": nil}
	text := strings.Repeat(" t", n)
	if w.chat {
		c["delta"] = object{"content": text}
	} else {
		c["text"] = text
	}
	return w.event(c)
}

func (w writer) role() object {
	if w.chat {
		return w.event(object{"index": 0, "finish_reason": nil, "delta": object{"role": "assistant", "content": ""}})
	}
	return w.choice(0, 0)
}

func (w writer) event(choices ...object) object {
	if choices == nil {
		choices = []object{}
	}
	return object{"id": "simserve", "model": w.model, "choices": choices}
}

// finish sets the finish reason of an event.
func finish(event object, reason string) { event["choices"].([]object)[0]["finish_reason"] = reason }

// script decides what is written for one request.
func (s *server) script(q request, a api, fault Fault) script {
	p, w := s.openAI(q, a, fault)
	p.native(a, q, w.model, fault)
	return p
}

// openAI is the script in the form of completions or chat.
func (s *server) openAI(q request, a api, fault Fault) (script, writer) {
	w := writer{a == chat, s.Model}
	if fault == WrongModel || fault == AnswersModel {
		w.model = otherModel
	}
	first := s.Prefill + time.Duration(q.input-q.cached)*s.PerToken
	form := a.usage(s.Form.Usage)
	var p script
	if s.Form.RoleFirst {
		p.lines = append(p.lines, line{body: w.role()})
	}
	if fault == StallFirst {
		// A comment a second for an hour is longer than any client waits.
		for i := range 3600 {
			p.lines = append(p.lines, line{at: time.Duration(i) * time.Second, raw: ": wait\n\n"})
		}
		p.end = hang
		return p, w
	}
	if fault == ErrorFirst {
		p.lines = append(p.lines, line{at: first, body: failure(500, "no memory")}, line{at: first, raw: done})
		return p, w
	}
	tokens, reason := q.MaxTokens, "length"
	if fault == LongOutput {
		tokens++
	}
	sizes := s.sizes(tokens)
	made := 0
	var tail line // the last event of the answer
	for i, n := range sizes {
		at := first + time.Duration(i)*s.Step
		made += n
		if fault == NoTokens {
			n = 0
		}
		tail = line{at: at, token: n > 0, body: w.choice(0, n)}
		if form == UsageEvery {
			tail.body["usage"] = usage(q, made, None)
		}
		p.lines = append(p.lines, tail)
		if i+1 != (len(sizes)+1)/2 {
			continue
		}
		if p.halfway(tail, w, q, made, fault) {
			return p, w
		}
		switch fault {
		case ShortOutput:
			reason = "stop"
		case Abort:
			reason = "abort"
		}
		if reason != "length" {
			break
		}
	}
	if fault == OddFinish {
		reason = "tired"
	}
	p.finish(tail, form, w, fault, reason, usage(q, made, fault))
	return p, w
}

// sizes are the tokens of each event.
func (s *server) sizes(tokens int) (out []int) {
	bursts := s.Engine.Bursts
	if len(bursts) == 0 {
		bursts = []int{s.Form.PerEvent}
	}
	for i := 0; tokens > 0; i++ {
		n := min(bursts[i%len(bursts)], tokens)
		out = append(out, n)
		tokens -= n
	}
	return out
}

// halfway adds what a fault does after half of the events, and says whether the
// script ends with it.
func (p *script) halfway(last line, w writer, q request, made int, fault Fault) (over bool) {
	add := func(l line) {
		l.at = last.at
		p.lines = append(p.lines, l)
	}
	switch fault {
	case ErrorEvent:
		add(line{body: failure(500, "the engine is dead")})
		add(line{raw: done})
		return true
	case ErrorObject:
		add(line{body: object{"object": "error", "message": "the engine is dead", "code": 500}})
		add(line{raw: done})
		return true
	case ErrorClose:
		add(line{body: failure(500, "the engine is dead")})
		return true
	case HalfEvent:
		add(line{raw: "data: {\"choices\":[{\"ind"})
		return true
	case Cut:
		p.end = cutOff
		return true
	case Stall:
		p.end = hang
		return true
	case BadJSON:
		add(line{raw: "data: {\"choices\":[\n\n"})
	case TwoChoices:
		add(line{body: w.choice(1, 1)})
	case UsageFalls:
		for _, n := range []int{made, made - 1} {
			e := w.event()
			e["usage"] = usage(q, n, None)
			add(line{body: e})
		}
	}
	return false
}

// usage makes the server's own counts.
func usage(q request, output int, fault Fault) object {
	input, cached := q.input, q.cached
	switch fault {
	case NoUsage:
		return nil
	case PromptCount:
		input++
	case OutputCount:
		output /= 2
	case CachedOver:
		cached = input + 1
	}
	return object{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
		"prompt_tokens_details": object{"cached_tokens": cached}}
}

// finish appends what follows the tokens, and puts the finish reason where the
// form has it.
func (p *script) finish(last line, form Usage, w writer, fault Fault, reason string, usage object) {
	at := last.at
	if form == UsageFinish {
		last.body = w.choice(0, 0)
		p.lines = append(p.lines, line{at: at, body: last.body})
	}
	if fault != NoFinish {
		finish(last.body, reason)
	}
	switch {
	case usage == nil:
	case form == UsageFinish, form == UsageToken:
		last.body["usage"] = usage
	default:
		e := w.event()
		e["usage"] = usage
		p.lines = append(p.lines, line{at: at, body: e})
	}
	if fault == LateToken {
		p.lines = append(p.lines, line{at: at, token: true, body: w.choice(0, 1)})
	}
	if fault != NoDone {
		p.lines = append(p.lines, line{at: at, raw: done})
	}
	switch fault {
	case DoneTwice:
		p.lines = append(p.lines, line{at: at, raw: done})
	case AfterDone:
		p.lines = append(p.lines, line{at: at, token: true, body: w.choice(0, 1)})
	}
	if fault == StallEnd {
		p.end = hang
	}
}
