package governance

import (
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/mask"
)

// channels are the kinds of calls for which a policy may make exceptions, with the actions of calls that are of that kind.
func channels() map[string]string {
	return map[string]string{
		"chat.completions": "chat", "completions": "completions", "embeddings": "embeddings", "rerank": "rerank", "score": "score", "rag.search": channelSearch,
		"rag.passage": channelSearch, // what a search has found is opened
		"moderations": "chat",        // who asks first wants to know what a chat would come to
	}
}

// channelSearch is the channel in which passages are shown to the caller and given to no engine.
const channelSearch = "search"

// override are the actions of an exception; "" is none.
type override struct {
	Request mask.Action `json:"request,omitempty"`
	Passage mask.Action `json:"passage,omitempty"`
	Answer  mask.Action `json:"answer,omitempty"`
}

func (p *policy) readChannels(n *yaml.Node, path string) error {
	p.Channels = map[string]map[string]override{}
	var fields []field
	for _, channel := range channels() {
		fields = append(fields, field{channel, false, func(n *yaml.Node, path string) error {
			p.Channels[channel] = map[string]override{}
			return p.readExceptions(n, path, p.Channels[channel])
		}})
	}
	return object(n, path, fields)
}

func (p *policy) readExceptions(n *yaml.Node, path string, to map[string]override) error {
	var fields []field
	for _, class := range p.classNames() {
		fields = append(fields, field{class, false, func(n *yaml.Node, path string) error {
			var a actions
			err := a.read(n, path, false)
			to[class] = override(a)
			return err
		}})
	}
	return object(n, path, fields)
}
