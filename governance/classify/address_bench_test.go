package classify

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// addressProse is plain prose of several kinds, without anything sensitive.
const addressProse = `近日，市政府召开常务会议，研究部署下一阶段城市更新和老旧小区改造工作。会议指出，要坚持以人民为中心的发展思想，从群众最关心的问题入手，完善配套设施，改善居住环境，提升治理水平。
各区各部门要压实责任，加强统筹协调，细化工作方案，明确时间节点，确保各项任务落到实处。要广泛听取居民意见，充分发挥社区作用，让群众成为改造的参与者、监督者和受益者。
春天来了，公园里的花都开了，孩子们在草地上奔跑，老人们坐在长椅上聊天。远处的山还留着一点雪，风吹过湖面，柳枝轻轻摇动。我想起小时候住过的院子，门前有一棵很高的槐树，夏天的傍晚大家都在树下乘凉。
这款手机采用了新一代处理器，性能提升明显，续航时间也更长。屏幕显示细腻，色彩还原准确，拍照效果在同价位产品中表现突出。不过机身偏重，充电速度一般，建议有需要的用户到线下门店体验之后再做决定。
患者因反复咳嗽、咳痰两周入院，查体双肺呼吸音粗，可闻及少许湿啰音，心率每分钟八十八次，律齐，未闻及病理性杂音。血常规提示白细胞升高，胸部影像学检查见右下肺斑片状阴影，考虑社区获得性肺炎，给予抗感染、止咳化痰治疗。
本院认为，双方当事人签订的合同系真实意思表示，内容不违反法律、行政法规的强制性规定，应认定为有效。被告未按约定支付货款，构成违约，应当承担继续履行、赔偿损失等违约责任。原告的诉讼请求于法有据，本院予以支持。
机组检修期间，运行人员应严格执行操作票制度，认真核对设备名称和编号，做好安全隔离措施。检修结束后，须清理现场，恢复设备标识，办理工作票终结手续，方可进行试运行。`

// TestAddressHoldsLittleBack: of plain prose fed rune by rune, hardly more than a name's length waits for more.
func TestAddressHoldsLittleBack(t *testing.T) {
	sc := New(Address).Scanner()
	var held []int
	for _, r := range addressProse {
		sc.Write(string(r))
		held = append(held, utf8.RuneCountInString(sc.buf))
	}
	slices.Sort(held)
	if p95, most := held[len(held)*95/100], held[len(held)-1]; p95 > 12 || most > 40 {
		t.Errorf("95 of 100 times at most %d runes are held back, once %d", p95, most)
	}
	t.Log(held[len(held)/2], held[len(held)*95/100], held[len(held)-1])
}

func BenchmarkAddressProse(b *testing.B) {
	text := strings.Repeat(addressProse, 10)
	set := New(Address)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		set.Find(text)
	}
}

func BenchmarkAddressBase(b *testing.B) {
	text := strings.Repeat(addressProse, 10)
	set := New(Mobile)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set.Find(text)
	}
}

// TestAddressWorkIsBounded: texts that look like addresses again and again cost a bounded amount for each rune.
func TestAddressWorkIsBounded(t *testing.T) {
	set := New(Address)
	for _, unit := range []string{"村", "路", "浙江省", "12号", "1-", "三", "3栋", "A座", "甲", "恩施土", "住", "地址：", "锦绣花园", "幸福路 ", "第", "1 ", "号", "一二楼", "文三路1号锦绣", "杭州市西湖区"} {
		begun := time.Now()
		set.Find(strings.Repeat(unit, 60000/len(unit)))
		if spent := time.Since(begun); spent > 5*time.Second {
			t.Errorf("%q: %s for 60 kB", unit, spent)
		} else {
			t.Logf("%q: %s", unit, spent)
		}
	}
}
