package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// check is a small validator of the words of JSON Schema that are used here. It
// says what is wrong, "" if nothing is; a word that it does not know panics.
func check(s object, v any) string {
	for word, x := range s {
		if why := checkWord(s, word, x, v); why != "" {
			return word + ": " + why
		}
	}
	return ""
}

func checkWord(s object, word string, x, v any) string {
	number, isNumber := v.(float64)
	text, isText := v.(string)
	list, isList := v.([]any)
	obj, isObject := v.(object)
	switch word {
	case "$schema", "title", "description", "default":
	case "type":
		if types, ok := x.([]any); !ok && !isType(x, v) || ok && !slices.ContainsFunc(types, func(t any) bool { return isType(t, v) }) {
			return fmt.Sprintf("%v is no %v", v, x)
		}
	case "enum":
		if !slices.Contains(x.([]any), v) {
			return fmt.Sprintf("%v is none of %v", v, x)
		}
	case "pattern":
		if isText && !regexp.MustCompile(x.(string)).MatchString(text) {
			return text
		}
	case "minLength":
		return when(isText && float64(len(text)) < x.(float64), text)
	case "minimum":
		return when(isNumber && number < x.(float64), fmt.Sprint(number))
	case "maximum":
		return when(isNumber && number > x.(float64), fmt.Sprint(number))
	case "exclusiveMinimum":
		return when(isNumber && number <= x.(float64), fmt.Sprint(number))
	case "minItems":
		return when(isList && float64(len(list)) < x.(float64), fmt.Sprint(v))
	case "maxItems":
		return when(isList && float64(len(list)) > x.(float64), fmt.Sprint(v))
	case "uniqueItems":
		for i, a := range list {
			if slices.Contains(list[:i], a) {
				return fmt.Sprintf("%v stands twice", a)
			}
		}
	case "items":
		for _, e := range list {
			if why := check(x.(object), e); why != "" {
				return why
			}
		}
	case "anyOf":
		var all []string
		for _, f := range x.([]any) {
			why := check(f.(object), v)
			if why == "" {
				return ""
			}
			all = append(all, why)
		}
		return strings.Join(all, " | ")
	case "required":
		for _, name := range x.([]any) {
			if _, ok := obj[name.(string)]; isObject && !ok {
				return fmt.Sprintf("no %v", name)
			}
		}
	case "properties", "additionalProperties":
		return checkProperties(s, word, x, obj)
	default:
		panic("no such word: " + word)
	}
	return ""
}

func checkProperties(s object, word string, x any, obj object) string {
	known, _ := s["properties"].(object)
	for name, e := range obj {
		f, isKnown := known[name]
		if isKnown != (word == "properties") {
			continue
		}
		if !isKnown {
			f = x
		}
		if f == false {
			return "unexpected " + name
		}
		if why := check(f.(object), e); why != "" {
			return name + ": " + why
		}
	}
	return ""
}

func when(wrong bool, what string) string {
	if wrong {
		return what
	}
	return ""
}

func isType(t, v any) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case float64:
		return t == "number" || t == "integer" && v == float64(int64(v))
	case []any:
		return t == "array"
	}
	return t == "object"
}
