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
func (s *server) script(q request, chat bool, fault Fault) script {
	w := writer{chat, s.Model}
	if fault == WrongModel || fault == AnswersModel {
		w.model = otherModel
	}
	first := s.Prefill + time.Duration(q.input)*s.PerToken
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
		return p
	}
	tokens := q.MaxTokens
	if fault == LongOutput {
		tokens++
	}
	events := (tokens + s.Form.PerEvent - 1) / s.Form.PerEvent
	made, reason := 0, "length"
	var tail line // the last event of the answer
	for i := range events {
		at := first + time.Duration(i)*s.Step
		n := min(s.Form.PerEvent, tokens-made)
		made += n
		if fault == NoTokens {
			n = 0
		}
		tail = line{at: at, token: n > 0, body: w.choice(0, n)}
		p.lines = append(p.lines, tail)
		if i+1 != (events+1)/2 {
			continue
		}
		switch fault { // half-way
		case ErrorEvent:
			p.lines = append(p.lines, line{at: at, body: failure(500, "the engine is dead")}, line{at: at, raw: done})
			return p
		case BadJSON:
			p.lines = append(p.lines, line{at: at, raw: "data: {\"choices\":[\n\n"})
		case TwoChoices:
			p.lines = append(p.lines, line{at: at, body: w.choice(1, 1)})
		case Cut:
			p.end = cutOff
			return p
		case Stall:
			p.end = hang
			return p
		case ShortOutput:
			reason = "stop"
		case Abort:
			reason = "abort"
		}
		if reason != "length" {
			break
		}
	}
	p.finish(tail, s.Form.Usage, w, fault, reason, usage(q.input, made, fault))
	return p
}

// usage makes the server's own counts.
func usage(input, output int, fault Fault) object {
	switch fault {
	case NoUsage:
		return nil
	case PromptCount:
		input++
	case OutputCount:
		output /= 2
	}
	return object{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
		"prompt_tokens_details": object{"cached_tokens": 0}}
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
	if fault == StallEnd {
		p.end = hang
	}
}
