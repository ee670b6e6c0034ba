package adminapi

import (
	"embed"
	"path"
	"regexp"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
)

// firstCallFiles are programs that ask once, named DIALECT.LANGUAGE. They speak to exampleRoot, and read the secret from the environment: a program that
// holds it ends up in repositories.
//
//go:embed firstcalls/*
var firstCallFiles embed.FS

// exampleRoot stands for the address of the server, without the path of a dialect.
const exampleRoot = "https://sluice.example"

// plainName is what may stand in a text of any of the languages as it is.
var plainName = regexp.MustCompile(`^[\[A-Za-z0-9][A-Za-z0-9._/:@\[\]-]*$`)

// firstCalls are programs to copy, for a key of the project: those for which there is a model that it may ask.
func (s *Server) firstCalls(c *gin.Context, base, project string) []FirstCall {
	root := strings.TrimSuffix(base, "/v1")
	models := map[string]string{
		"CHAT_MODEL": s.exampleModel(c, project, gateway.ActionChat), "EMBED_MODEL": s.exampleModel(c, project, gateway.ActionEmbed),
		"RERANK_MODEL": s.exampleModel(c, project, gateway.ActionRerank),
	}
	out := []FirstCall{}
	for _, dialect := range []string{"openai", "anthropic", "ollama", "cohere", "open_inference"} {
		for _, language := range []string{"sh", "py", "go", "ts", "java"} {
			if text, ok := firstCall(dialect, language, root, models); ok {
				out = append(out, FirstCall{Dialect: dialect, Language: language, Text: text})
			}
		}
	}
	return out
}

// firstCall is the program of a dialect in a language, if there is one and what it names is there.
func firstCall(dialect, language, root string, models map[string]string) (string, bool) {
	name := dialect + "." + language
	if language == "go" { // which is none of ours
		name += ".txt"
	}
	raw, err := firstCallFiles.ReadFile(path.Join("firstcalls", name))
	if err != nil || !plainName.MatchString(strings.TrimPrefix(strings.TrimPrefix(root, "https://"), "http://")) {
		return "", false
	}
	text := strings.ReplaceAll(string(raw), exampleRoot, root)
	for place, model := range models {
		if !strings.Contains(text, place) {
			continue
		}
		if !plainName.MatchString(model) {
			return "", false
		}
		text = strings.ReplaceAll(text, place, model)
	}
	return text, true
}
