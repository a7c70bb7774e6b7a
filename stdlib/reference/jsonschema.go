package reference

import (
	"encoding/json"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

// object is a JSON object; encoding/json sorts its names, so that the output is
// the same every time.
type object = map[string]any

// Campaign and Definition are the two kinds of files.
const (
	Campaign   = ""
	Definition = "file"
)

// JSONSchema describes files in the JSON syntax, of the kind Campaign or
// Definition, as a document of JSON Schema 2020-12.
func JSONSchema(kind string) ([]byte, error) {
	title := "sotabuild campaign, JSON syntax"
	if kind == Definition {
		title = "sotabuild framework definition, JSON syntax"
	}
	s := body(kind, nil)
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	if kind == Campaign { // required blocks may stand in another file
		delete(s, "required")
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// body is what stands in a block, or at the top of a file.
func body(path string, attrs []lang.Attr) object {
	properties := object{"//": object{}}
	var required []string
	for _, a := range attrs {
		properties[a.Name] = attribute(a)
		if a.Required {
			required = append(required, a.Name)
		}
	}
	for _, row := range lang.Schema() {
		if parent(row.Path) != path {
			continue
		}
		properties[shown(row)] = blockSchema(row)
		if row.Required {
			required = append(required, shown(row))
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func parent(path string) string {
	i := strings.LastIndex(path, ".")
	return path[:max(i, 0)]
}

// attribute is a value as written, null, or a text with an expression.
func attribute(a lang.Attr) object {
	forms := []any{json.RawMessage(a.Type.JSON()), object{"type": "string", "pattern": `\$\{`}}
	if !a.Required {
		forms = append(forms, object{"type": "null"})
	}
	s := object{"anyOf": forms, "description": a.Doc}
	if a.Default != "" && json.Valid([]byte(a.Default)) {
		s["default"] = json.RawMessage(a.Default)
	}
	return s
}

// blockSchema is one block or a list of them, by label where there is one.
func blockSchema(row lang.Block) object {
	one := body(row.Path, row.Attrs)
	if row.Path == "locals" {
		one = object{"type": "object"}
	}
	one["description"] = row.Doc
	if row.Label == "" {
		return object{"anyOf": []any{one, object{"type": "array", "items": one}}}
	}
	labelled := object{"type": "object", "description": row.Label, "additionalProperties": one, "properties": object{"//": object{}}}
	if row.Labels != nil {
		names := object{"//": object{}}
		for _, l := range row.Labels {
			names[l] = one
		}
		labelled["properties"], labelled["additionalProperties"] = names, false
	}
	return labelled
}
