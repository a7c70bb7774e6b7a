package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Text is what a whole answer says, for people and for scoring. It allocates
// and is not for the hot path.
func (a API) Text(body []byte) (string, error) {
	var v struct {
		Choices []struct {
			Text    string `json:"text"`
			Message struct {
				Content   string `json:"content"`
				Reasoning string `json:"reasoning_content"`
			} `json:"message"`
		} `json:"choices"`
		Content *string `json:"content"` // llama.cpp
		Text    *string `json:"text"`    // SGLang
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("reading an answer: %w", err)
	}
	switch {
	case a == LlamaCpp && v.Content != nil:
		return *v.Content, nil
	case a == SGLang && v.Text != nil:
		return *v.Text, nil
	case len(v.Choices) > 0:
		c := v.Choices[0]
		return c.Message.Reasoning + c.Message.Content + c.Text, nil
	}
	return "", errors.New("reading an answer: it has no text")
}
