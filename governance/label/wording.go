package label

import (
	"strings"
	"unicode/utf8"
)

// Channel is where people meet an answer, which decides how its visible label is worded.
type Channel string

// The channels.
const (
	ChannelAPI    Channel = "api"    // a sentence behind the answer
	ChannelUI     Channel = "ui"     // beside an answer on a page
	ChannelExport Channel = "export" // in a file
	ChannelSMS    Channel = "sms"    // at the beginning of a short message, in as few characters as the standard lets it have
	ChannelEmail  Channel = "email"  // at the beginning of an e-mail
	ChannelMark   Channel = "mark"   // the superscript form, for HTML: put it right behind the text
)

// Channels returns all channels.
func Channels() []Channel {
	return []Channel{ChannelAPI, ChannelUI, ChannelExport, ChannelSMS, ChannelEmail, ChannelMark}
}

// Wording returns the visible label of a channel, in Chinese or in English; "" for a channel that does not exist. Every wording has the two elements
// that GB 45438-2025 (5.1) asks for: that it was AI, and that it was generated.
func Wording(c Channel, chinese bool) string {
	pair := map[Channel][2]string{
		ChannelAPI:    {TextChinese, TextEnglish},
		ChannelUI:     {"内容由人工智能生成，请核实重要信息", "AI-generated content. Check what matters."},
		ChannelExport: {"本文件含人工智能生成的内容", "This file contains AI-generated content."},
		ChannelSMS:    {"【AI生成】", "[AI-generated]"},
		ChannelEmail:  {"本邮件含人工智能生成的内容。", "This e-mail contains AI-generated content."},
		ChannelMark:   {"<sup>AI生成</sup>", "<sup>AI-generated</sup>"},
	}[c]
	if chinese {
		return pair[0]
	}
	return pair[1]
}

// seenWithin is how many characters at the beginning and at the end of a text a visible label is looked for in: the standard wants it at the
// beginning, at the end, or at a fitting place between, and a text that speaks of AI somewhere is not labelled by that.
const seenWithin = 120

// Seen reports whether a text has a visible label at its beginning or its end: a line with an element for AI and one for generated, short enough to
// be a label and no sentence of the text.
func Seen(text string) bool {
	text = strings.TrimSpace(text)
	return seenIn(firstRunes(text, seenWithin), true) || seenIn(lastRunes(text, seenWithin), false)
}

// Marks reports whether a text is itself a visible label: it has both elements.
func Marks(text string) bool {
	folded := strings.ToLower(text)
	ai := strings.Contains(text, "人工智能") || strings.Contains(text, "AI")
	for _, made := range []string{"生成", "合成", "generated", "synthesi"} {
		if ai && strings.Contains(folded, made) {
			return true
		}
	}
	return false
}

// seenIn looks at the line that the beginning of a text starts with, or that its end ends with.
func seenIn(part string, first bool) bool {
	lines := strings.FieldsFunc(part, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return false
	}
	line := lines[len(lines)-1]
	if first {
		line = lines[0]
	}
	const longest = 60 // characters: a label is no paragraph
	return utf8.RuneCountInString(line) <= longest && Marks(line)
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func lastRunes(s string, n int) string {
	i := len(s)
	for ; i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
