package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Read reads a set's file and checks its form: ids in order from 0, warm-up
// prompts first, each prompt with tokens or text and an output length. A file
// that does not end with a newline was cut. The prompts are the caller's.
func Read(r io.Reader) ([]Prompt, error) {
	var out []Prompt
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("reading dataset: %w", err)
		case len(line) > 0:
			return nil, fmt.Errorf("reading dataset: line %d has no end: the file is cut", len(out)+1)
		case len(out) == 0:
			return nil, errors.New("reading dataset: the file is empty")
		default:
			return out, nil
		}
		p, err := parse(line)
		if err == nil {
			err = follows(p, out)
		}
		if err != nil {
			return nil, fmt.Errorf("reading dataset: line %d: %w", len(out)+1, err)
		}
		out = append(out, p)
	}
}

func parse(line []byte) (Prompt, error) {
	var p Prompt
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("more than one value")
	}
	return p, nil
}

func follows(p Prompt, before []Prompt) error {
	switch {
	case p.ID != len(before):
		return fmt.Errorf("id is %d, not %d", p.ID, len(before))
	case p.Warmup && len(before) > 0 && !before[len(before)-1].Warmup:
		return errors.New("a warm-up prompt after a measured one")
	case p.kinds() == 0:
		return errors.New("neither tokens nor text nor messages")
	case p.kinds() > 1:
		return errors.New("more than one of tokens, text and messages")
	case p.InputLen < 0, p.InputLen > 0 && len(p.Tokens) > 0:
		return fmt.Errorf("input_len is %d; it is the count of a text", p.InputLen)
	case p.OutputLen < 1:
		return fmt.Errorf("output_len is %d", p.OutputLen)
	case p.At != nil && !(*p.At >= 0 && *p.At < 1e9):
		return fmt.Errorf("at_s is %v", *p.At)
	case !(p.Cancel >= 0 && p.Cancel < 1e9), !(p.Turn.Think >= 0 && p.Turn.Think < 1e9):
		return errors.New("a time is negative or none")
	case (p.Turn.Session > 0) != (p.Turn.Number > 0), p.Turn.Session < 0:
		return fmt.Errorf("turn %d of session %d", p.Turn.Number, p.Turn.Session)
	case p.Turn.Number > 1 && (len(before) == 0 || before[len(before)-1].Turn.Session != p.Turn.Session || before[len(before)-1].Turn.Number != p.Turn.Number-1):
		return fmt.Errorf("turn %d of session %d does not follow the turn before it", p.Turn.Number, p.Turn.Session)
	}
	for _, t := range p.Tokens {
		if t < 0 {
			return fmt.Errorf("token id %d is negative", t)
		}
	}
	return nil
}

// kinds is how many of the prompt's three forms are there.
func (p Prompt) kinds() (n int) {
	for _, is := range []bool{len(p.Tokens) > 0, p.Text != "", len(p.Messages) > 0} {
		if is {
			n++
		}
	}
	return n
}
