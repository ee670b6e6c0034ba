package httpapi

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/gateway"
)

// BenchmarkDecode reads the bodies of chats: a short one, one with history and tools, and a document of 150 KB with and without escapes.
func BenchmarkDecode(b *testing.B) {
	turn := `{"role":"user","content":"Please summarise the status of the order in one sentence."},{"role":"assistant","content":"It is on its way."},`
	tool := `{"type":"function","function":{"name":"look_up","description":"Looks up an order","parameters":{"type":"object","properties":{"number":{"type":"string"}}}}}`
	line := "The parcel left the warehouse in the morning and the carrier said that it would come before the weekend."
	for _, c := range []struct{ name, body string }{
		{"short", hello + `,"max_tokens":64,"stream":false}`},
		{"history", `{"model":"chat","messages":[` + strings.Repeat(turn, 20) + `{"role":"user","content":"x"}],"temperature":0.5,"tools":[` + tool + `]}`},
		{"document", `{"model":"chat","messages":[{"role":"user","content":"` + strings.Repeat(line+" ", 1430) + `"}]}`},
		{"document with line feeds", `{"model":"chat","messages":[{"role":"user","content":"` + strings.Repeat(line+`\n`, 1415) + `"}]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.body)))
			raw := []byte(c.body)
			for b.Loop() {
				f, err := parse(string(raw), 64)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := chatCall(f, 16, &gateway.Call{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
