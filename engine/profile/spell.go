package profile

import (
	"regexp"
	"strings"
)

// typed is {"type": …, "value": …}.
type typed struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

// responseFormat is OpenAI's object.
type responseFormat struct {
	Type       string      `json:"type"`
	JSONSchema *jsonSchema `json:"json_schema,omitempty"`
}

type jsonSchema struct {
	Name   string `json:"name"`
	Schema any    `json:"schema"`
	Strict bool   `json:"strict"`
}

type regexSchema struct {
	Type  string `json:"type"`
	Regex any    `json:"regex_schema"`
}

// Spell returns the value of the field for a form of an answer. kind is json_object, json_schema, regex, grammar or choice; value is its schema, its text
// or, of a choice, its texts.
func (p Parameter) Spell(kind string, value any) any {
	texts, _ := value.([]string)
	switch p.As {
	case "response_format":
		if kind == "json_schema" {
			return responseFormat{kind, &jsonSchema{"answer", value, true}}
		}
		return responseFormat{Type: kind}
	case "typed":
		return typed{kind, value}
	case "regex_schema":
		return regexSchema{p.As, value}
	case "grammar":
		if kind == "choice" {
			return choiceGrammar(texts)
		}
	case "regex":
		if kind == "choice" {
			return choiceRegex(texts)
		}
	}
	return value
}

// choiceGrammar is the grammar of a list of texts.
func choiceGrammar(texts []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = `"` + escape.Replace(s) + `"`
	}
	return "root ::= " + strings.Join(quoted, " | ")
}

// choiceRegex is the regular expression of a list of texts.
func choiceRegex(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = regexp.QuoteMeta(s)
	}
	return "(" + strings.Join(quoted, "|") + ")"
}
