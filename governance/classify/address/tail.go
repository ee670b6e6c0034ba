package address

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// unitSort is what a number in an address counts.
type unitSort uint8

const (
	noUnit   unitSort = iota
	gate              // 号: a house on a road, a house in a village
	door              // a building, a unit, a room: hardly anything but addresses has these
	floor             // of floors and of much else
	bareUnit          // nothing
)

// What numbers count. Longer ones are found first.
var (
	doorUnits = text.ListOf(
		"号楼", "號樓", "号院", "栋", "棟", "幢", "座", "单元", "單元", "室", "号厂房", "号仓库", "号公寓", "号房", "号铺", "号商铺", "号门面", "号门面房", "号别墅", "弄", "支弄", "号大院", "号宿舍", "号底商", "号库房",
		"号车间", "房间", "包间", "包厢", "号家属院", "号家属楼", "号店铺", "号档口", "号摊位",
	)
	gateUnits  = text.ListOf("号", "號")
	floorUnits = text.ListOf(
		"楼", "樓", "层", "層", "户", "房", "门", "组", "社", "队", "区", "區", "期", "排", "铺", "村民组", "村民小组", "小组", "大队", "生产队", "梯", "院", "巷", "条", "铺位", "街坊", "号门", "家", "档", "村",
	)
	// Behind 号, these make it no house.
	notGate = text.ListOf("线", "文", "令", "机", "主变", "床", "窗", "井", "桥", "墩", "炉", "样", "馆", "公告", "台", "航站", "变压", "泵", "罐", "标", "字", "电梯", "通知", "柜", "车", "提案", "议案", "病", "手术", "汽", "停车", "出口", "出入口", "口", "展", "站台", "登机", "检票", "通道", "码头", "泊位", "车位", "地块", "标段", "桩", "杆", "塔", "隧道", "球", "选手", "座位", "包", "前", "后", "起", "开", "会议", "检")
	// Words that begin with a unit and are none.
	notFloor = text.ListOf(
		"组织", "组长", "组成", "组合", "组建", "户籍", "户型", "户外", "户口", "户主", "户均", "层次", "层级", "层面", "队员", "队伍", "队长", "房价", "房型", "房屋", "房产", "房子", "房东", "房内", "房客", "房主", "层高", "层楼", "家庭", "家属", "家长", "社区", "社会", "区域", "区间", "区级", "期间", "期限", "排名", "排放",
		"楼层", "楼盘", "楼道", "楼梯", "楼宇", "院士", "院长", "村民", "村委", "村级", "村通", "条件", "条例", "门课", "门类", "铺设", "档案", "档次", "户数", "户家庭", "户居民", "户村民", "户人家", "家企业", "家单位", "家商户", "家公司",
		"家银行", "家医院", "家店", "家庭", "村脱贫", "区县", "条款", "条意见", "条线",
	)
	// Behind a number of buildings, these make it an amount.
	notDoor = text.ListOf("建筑", "居民楼", "住宅", "高层", "别墅", "危房", "大楼", "房屋", "楼房", "城市", "大桥", "桥", "山", "水库", "电站", "变电", "岛", "塔", "寺", "矿", "站", "教学", "宿舍楼")
	// Behind 室, these make it the size of a flat.
	notFlat = text.ListOf("厅", "一厅", "二厅", "两厅", "1厅", "2厅", "0厅", "一卫", "1卫")
	// Rooms of institutions.
	notRoom = text.ListOf("会议室", "诊室", "教室", "病房", "机房", "病床", "床", "窗口", "实验室", "柜台", "考场", "检查室", "手术室", "病区")
	// What may stand at the end of an address.
	lastWords = text.ListOf(
		"东户", "西户", "中户", "南户", "北户", "左户", "右户", "东边户", "西边户", "中间户", "左手边", "右手边", "厂房", "仓库", "车间", "门面", "门面房", "商铺", "底商", "地下室", "后院", "左手", "右手", "东侧", "西侧", "东头", "西头", "阁楼", "后门", "地下", "平房", "天台", "顶楼", "顶层",
	)
	houseWords = text.ListOf("东头", "西头", "南头", "北头", "村口", "村头", "村尾", "村东", "村西", "村南", "村北", "路口", "桥头")
)

// What may stand behind a letter or a side that names a building, and behind the 门 in front of one.
var (
	letteredWords = text.ListOf("座", "栋", "幢", "单元", "室", "号楼", "区", "塔", "楼", "层", "馆")
	sidedWords    = text.ListOf("座", "栋", "幢")
	entranceWords = text.ListOf("口", "前", "卫", "市", "诊", "牌", "外", "面", "店")
	countMarks    = text.RunesOf("甲乙丙丁附第#")
)

func isNumeral(r rune) bool {
	switch r {
	case '一', '二', '三', '四', '五', '六', '七', '八', '九', '十', '百', '千', '零', '〇', '两', '幺':
		return true
	}
	return false
}

// isSide reports whether a rune tells buildings apart as letters do.
func isSide(r rune) bool {
	switch r {
	case '甲', '乙', '丙', '丁', '东', '西', '南', '北', '中':
		return true
	}
	return false
}

// numerals returns the end of a number in Chinese numerals at place k.
func (p *route) numerals(k int) int {
	for n := 0; n < 7 && isNumeral(p.at(k)); n++ {
		k++
	}
	return k
}

// count returns the end of the number at place k, with a letter before or behind and what stands for another number of the same kind.
func (p *route) count(k int) (end int, ok bool) {
	if countMarks.Has(p.at(k)) {
		k++
	}
	if isNumeral(p.at(k)) {
		return p.numerals(k), true
	}
	from, digits := k, 0
	for k-from < 6 {
		r := p.at(k)
		if p.blank(k) && k > from {
			if n, _ := p.unit(p.digits(k)); n == 0 || !text.IsDigit(r) {
				break
			}
		}
		if text.IsDigit(r) {
			digits++
		} else if text.Misread(r) == 0 {
			break
		}
		k++
	}
	if k == from || digits == 0 && k-from > 1 || text.IsDigit(p.at(k)) && !p.blank(k) {
		return k, false
	}
	if digits > 0 && text.IsLetter(p.at(k)) && !text.IsAlnum(p.at(k+1)) && !p.blank(k) {
		k++
	}
	if r := p.at(k); digits > 0 && (r == '甲' || r == '乙' || r == '丙' || r == '丁') { // 36甲2号, 5甲号
		if end := p.digits(k + 1); p.any(end, gateUnits) > 0 {
			k = end
		}
	}
	if digits == 0 {
		n, _ := p.unit(k)
		return k, n > 0 || p.at(k) == '-'
	}
	return k, true
}

// digits returns the end of the digits at place k.
func (p *route) digits(k int) int {
	for n := 0; n < 6 && text.IsDigit(p.at(k)); n++ {
		k++
	}
	return k
}

// lettered returns the end of a building that is named by a letter or a side, such as A座, or 0.
func (p *route) lettered(k int) int {
	r := p.at(k)
	switch {
	case text.IsLetter(r):
		if k > 0 && text.IsAlnum(p.at(k-1)) && !p.blank(k) {
			return 0
		}
		k++
		for text.IsDigit(p.at(k)) && !p.blank(k) {
			k++
		}
		if n := p.any(k, letteredWords); n > 0 {
			return k + n
		}
	case isSide(r):
		if n := p.any(k+1, sidedWords); n > 0 {
			return k + 1 + n
		}
	}
	return 0
}

// unit returns the length and sort of what stands behind a number at place k.
func (p *route) unit(k int) (n int, s unitSort) {
	if p.at(k) == '#' {
		n = 1
		if p.at(k+1) == '楼' {
			n = 2
		}
		return n, door
	}
	if r := p.at(k); text.IsHan(r) && p.w.placeTable().of(r)&placeUnit == 0 {
		return 0, noUnit
	}
	if n = p.any(k, doorUnits); n > 0 {
		if r := p.at(k); r == '室' && p.any(k+n, notFlat) > 0 || n == 1 && r != '室' && r != '弄' && p.any(k+n, notDoor) > 0 {
			return 0, noUnit
		}
		return n, door
	}
	if n = p.any(k, gateUnits); n > 0 {
		if m := p.any(k, floorUnits); m > n && !p.entrance(k+1) {
			return m, floor
		}
		return n, gate
	}
	if n = p.any(k, floorUnits); n > 0 && !p.entrance(k) && p.any(k+n-1, notFloor) == 0 {
		return n, floor
	}
	return 0, noUnit
}

// entrance reports whether the 门 at place k is no door that is numbered, but what is in front of one.
func (p *route) entrance(k int) bool {
	return p.at(k) == '门' && p.any(k+1, entranceWords) > 0
}

// tail is the numbers of an address and the names between them.
type tail struct {
	*head
	k      int // the place behind what was taken
	groups int
	doors  int
	first  unitSort
	last   unitSort
	chain  int  // numbers of the longest row such as 3-2-501
	inner  bool // a room of an institution
	flat   bool // a room, or something as small
	tower  bool // begins with a building as estates have them
	deep   bool // begins with a village's group
}

// fine takes an address that goes down to a number, and returns the place behind it.
func (h *head) fine(m *finding.Candidate) int {
	t := tail{head: h, k: h.end}
	kind := h.sort(h.end)
	if !t.group(kind == estate) {
		h.noneBefore = max(h.end, 1)
		return 0
	}
	for t.more(kind) {
	}
	if h.any(t.k, notRoom) > 0 {
		t.inner = true
	}
	m.Evidence |= finding.Precise
	m.Form = t.form(kind)
	cue := h.table.before(h.w, m.Start)
	m.Evidence |= cue.why
	if kind == estate && t.first == floor && t.groups == 1 && t.chain < 2 && !cue.home {
		m.Form = 0
	}
	if t.inner || kind == other && (h.inside() || h.worded()) || kind == estate && t.first == floor && h.inside() {
		m.Evidence |= finding.Ordinary
	}
	if n, _ := h.divisions(0, h.end); n > 0 {
		m.Evidence |= finding.RegionRight
	}
	return t.k
}
