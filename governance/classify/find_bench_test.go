package classify

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
)

const englishProse = `The committee met on Tuesday to review progress on the harbour project and to hear from residents who live near the site. Several of them
asked whether the noise would end before winter, and the engineers explained that most of the heavy work is finished. Prices have risen since the first
estimate was published, mainly because steel and timber cost more than anyone expected. Nobody on the panel wanted to delay the opening again; they agreed
to look for savings in the landscaping budget instead. After lunch the discussion turned to traffic. A consultant presented three options, each with its own
advantages, and recommended the second one because it keeps buses moving while the bridge is closed. The chair thanked everybody and promised a written answer
within two weeks. `

const digitTable = `序号,时间,电压,电流,示数,流量,单价,合计
1,2024-03-15 08:15:00,220.4,13.25,10482.77,0.361,0.5283,5538.09
2,2024-03-15 08:30:00,221.0,12.98,10483.15,0.358,0.5283,5538.29
3,2024-03-15 08:45:00,219.7,14.02,10483.60,0.402,0.5283,5538.53
4	1710463500	38.912	7751209	0.0031	99120	45	6
5	1710464400	38.907	7751388	0.0029	99187	44	7
`

const serverLog = `2024-03-15T08:15:00.123Z INFO  [worker-7] request_id=5f3a9c1e7b2d4806 method=GET path=/api/v2/orders/884213 status=200 bytes=18432 duration_ms=12.4
2024-03-15T08:15:00.341Z WARN  [worker-2] retry=3 upstream=db-replica-04:5432 error="connection reset" after=250ms trace=00-4bf92f3577b34da6a3ce929d0e0e4736-00
2024-03-15T08:15:01.007Z DEBUG cache hit ratio=0.9731 keys=1048576 evicted=2210 heap=73400320 goroutines=418
Mar 15 08:15:02 host-19 kernel: [1123456.789012] eth0: link up, 1000 Mbps, full duplex
`

const peopleProse = `今年以来，我市持续优化营商环境，市民来电反映的供暖不足问题得到及时处理，群众满意度稳步提升。` +
	`据经办人王小明介绍，张先生和李女士已经收到答复，项目负责人陈建国表示感谢。`

// BenchmarkFind measures all classes, those that are off by default among them, on kinds of text that cost different things.
func BenchmarkFind(b *testing.B) {
	prose, err := os.ReadFile("testdata/prose.txt")
	if err != nil {
		b.Fatal(err)
	}
	texts := map[string]string{
		"prose": string(prose), "people": peopleProse, "english": englishProse, "digits": digitTable, "log": serverLog,
	}
	set := New(Classes()...)
	for _, name := range []string{"prose", "people", "english", "digits", "log"} {
		text := strings.Repeat(texts[name], 40000/len(texts[name])+1)
		b.Run(name, func(b *testing.B) {
			set.Find(text) // the tables are made when first used
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				set.Find(text)
			}
		})
	}
	b.Run("corpus", func(b *testing.B) {
		tune, err := corpus.Open("tune")
		if err != nil {
			b.Fatal(err)
		}
		size := 0
		for _, d := range tune.Documents {
			size += len(d.Text)
		}
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			for _, d := range tune.Documents {
				set.Find(d.Text)
			}
		}
	})
}

// BenchmarkShort measures one short prompt as chats bring them.
func BenchmarkShort(b *testing.B) {
	for name, text := range map[string]string{
		"english": "Please summarise the status of order 48213 in one sentence. My name is Wang and my phone number is 13800138000.",
		"chinese": "请用一句话概括订单48213的状态。我姓王，手机号是13800138000，谢谢。",
	} {
		b.Run(name, func(b *testing.B) {
			set := New()
			b.ReportAllocs()
			for b.Loop() {
				set.Each(text, func(Segment) {})
			}
		})
	}
}
