package lang

import (
	"encoding/json"
	"strings"
)

// JSON is the type as a fragment of JSON Schema, for a value that is written
// out. In the JSON syntax a text with ${…} may stand for any of them.
func (t Type) JSON() json.RawMessage {
	if s, ok := fragments[t.Name]; ok {
		return json.RawMessage(s)
	}
	if words := t.Choices(); words != nil {
		list, err := json.Marshal(words)
		if err != nil {
			panic("lang: " + err.Error()) // texts always have JSON
		}
		return json.RawMessage(`{"enum":` + string(list) + `}`)
	}
	if strings.HasPrefix(t.Name, "whole number ≥ ") {
		return json.RawMessage(`{"type":"integer","minimum":` + strings.TrimPrefix(t.Name, "whole number ≥ ") + `}`)
	}
	panic("lang: the type " + t.Name + " has no JSON Schema") // a test walks all of them
}

// Choices are the words of a type that is one of some words; nil for others.
func (t Type) Choices() []string {
	if !strings.HasPrefix(t.Name, `"`) {
		return nil
	}
	var words []string
	for i, w := range strings.Split(t.Name, `"`) {
		if i%2 == 1 {
			words = append(words, w)
		}
	}
	return words
}

// fragments are the types that are neither choices nor counts.
var fragments = map[string]string{
	textType.Name:        `{"type":"string","minLength":1}`,
	boolType.Name:        `{"type":"boolean"}`,
	pathType.Name:        `{"type":"string","minLength":1}`,
	hubType.Name:         `{"type":"string","minLength":1}`,
	imageType.Name:       `{"type":"string","minLength":1}`,
	shareType.Name:       `{"type":"number","exclusiveMinimum":0,"maximum":1}`,
	partType.Name:        `{"type":"number","minimum":0,"maximum":1}`,
	positiveType.Name:    `{"type":"number","exclusiveMinimum":0}`,
	numberType.Name:      `{"type":"number","minimum":0}`,
	durationType.Name:    `{"type":"string","pattern":"^([0-9.]+(ms|s|m|h|d))+$"}`,
	bytesType.Name:       `{"type":"string","pattern":"^[0-9.]+[kmgtKMGT]([iI]?[bB])?$"}`,
	seedType.Name:        `{"type":"integer"}`,
	urlsType.Name:        `{"type":"array","items":{"type":"string","pattern":"^https?://"}}`,
	commandType.Name:     `{"type":"array","items":{"type":"string","minLength":1}}`,
	rolesType.Name:       `{"type":"array","items":{"type":"string","pattern":"^[a-z][a-z0-9_]*$"},"uniqueItems":true}`,
	fieldsType.Name:      `{"type":"array","items":{"type":"string","pattern":"^[a-z][a-z0-9_]*$"},"uniqueItems":true}`,
	namesType.Name:       `{"type":"array","items":{"type":"string","pattern":"^[a-z][a-z0-9_]*$"},"uniqueItems":true}`,
	globsType.Name:       `{"type":"array","items":{"type":"string","minLength":1},"uniqueItems":true}`,
	adaptersType.Name:    `{"type":"array","items":{"type":"string","minLength":1},"uniqueItems":true}`,
	envNamesType.Name:    `{"type":"array","items":{"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_]*$"},"uniqueItems":true}`,
	nameType.Name:        `{"type":"string","pattern":"^[a-z][a-z0-9_]*$"}`,
	revisionType.Name:    `{"type":"string","pattern":"^[0-9a-f]{40}$"}`,
	regexpType.Name:      `{"type":"string","minLength":1}`,
	urlPathType.Name:     `{"type":"string","pattern":"^/"}`,
	concurrencyType.Name: `{"type":"array","items":{"type":["integer","null"],"minimum":1},"minItems":1}`,
	vocabType.Name:       `{"type":"array","items":{"type":"integer","minimum":0},"minItems":2,"maxItems":2}`,
	idsType.Name:         `{"type":"array","items":{"type":["integer","string"]},"minItems":1}`,
	flagsType.Name:       `{"type":"object","additionalProperties":{"type":["string","number","boolean","null"]}}`,
	spaceType.Name:       `{"type":"object","additionalProperties":{"type":["array","string"]}}`,
	textsType.Name:       `{"type":"object","additionalProperties":{"type":"string"}}`,
	reasonsType.Name:     `{"type":"object","additionalProperties":{"type":"string"}}`,
	envType.Name:         `{"type":"object","additionalProperties":{"type":"string"}}`,
	samplingType.Name:    `{"type":"object","properties":{"temperature":{"type":"number","minimum":0}},"additionalProperties":false}`,
	portType.Name:        `{"type":"integer","minimum":0,"maximum":65535}`,
	flagNameType.Name:    `{"type":"string","minLength":1}`,
	flagNamesType.Name:   `{"type":"array","items":{"type":"string"},"uniqueItems":true}`,
	predicateType.Name:   `{"type":"string"}`,
	eachType.Name:        `{"type":["array","object"]}`,
	anyType.Name:         `{}`,
	kindType.Name:        `{"type":"string"}`,
}

// Types of attributes that the decoder does not take by the table.
var (
	eachType = Type{Name: "list of texts or numbers, or object"}
	anyType  = Type{Name: "any value"}
	kindType = Type{Name: "string, number, bool, list(…) or map(…)"}
)
