package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// nameParts are what Tibetan, Mongolian, Uyghur, Kazakh and Yi names are made of; two in a row, or a long one, are a name.
const nameParts = "扎西 次仁 次旦 次旺 达瓦 央金 卓玛 卓嘎 多吉 多杰 丹增 旦增 洛桑 罗桑 仁青 仁增 索朗 索南 尼玛 巴桑 拉姆 平措 格桑 德吉 白玛 强巴 贡布 贡嘎 顿珠 旺堆 旺姆 旺久 旺杰 曲珍 曲扎 普布 边巴 米玛 拉巴 " +
	"群培 桑吉 桑珠 才让 才旦 加措 嘉措 坚赞 云丹 江白 赤列 罗布 晋美 久美 央宗 玉珍 措姆 阿旺 土登 班觉 琼达 益西 登巴 根敦 却吉 华旦 南木加 完么 切措 桑杰 卓玛措 拉毛 更登 周毛 仁增旺姆 其美 班玛 俄金 登增 洛追 强久 白玛措 旺修 扎巴 " +
	"巴特尔 呼和 乌兰 图雅 其其格 琪琪格 斯琴 高娃 那仁 娜仁 朝克图 朝格图 哈斯 巴根 格日勒 格日乐 乌云 托娅 苏日娜 阿拉坦 布和 巴雅尔 牧仁 朝鲁 额尔敦 额尔德木图 宝力高 宝力德 宝音 萨日娜 萨仁 其木格 塔娜 通拉嘎 孟和 孟克 查干 阿古拉 " +
	"乌日娜 敖登 吉雅 毕力格 满都拉 特木尔 铁木尔 恩和 图力古尔 敖特根 阿木尔 苏和 苏日 乌力吉 巴图 达来 朝伦 阿斯根 乌恩 奥云 娜日苏 白音 道尔吉 海日罕 哈达 格根 吉日嘎拉 那日苏 斯日古楞 孟根 阿茹娜 阿尔斯楞 青格勒 图古勒 乌尼尔 " +
	"买买提 麦麦提 吐尔逊 吐尔洪 图尔荪 古丽 阿依古丽 古丽娜尔 阿依木 阿依努尔 热依汗 帕提古丽 阿不都 阿卜杜 热合曼 依明 艾力 艾则孜 库尔班 玉素甫 艾合买提 努尔 努尔兰 卡德尔 肉孜 阿迪力 迪丽 迪丽娜尔 米热 阿瓦古丽 吾买尔 木合塔尔 " +
	"哈力克 司马义 亚森 赛买提 托合提 阿布都 艾山 莫合塔尔 哈斯木 叶尔肯 叶尔兰 巴合提 古扎丽 玛依拉 热娜 阿曼 别克 江布尔 加娜尔 吉克 阿呷 曲比 沙马 吉木 阿木 阿各 伍各 木呷 尔古 勒格 瓦其 克惹 伍呷 拉古 日木"

// native finds names of those peoples that are written without a dot: 扎西次仁, 乌兰图雅.
func (n *namer) native() (finding.Candidate, bool) {
	k, count := n.start, 0
	for count < 4 && k-n.start < 8 {
		size, c := n.t.longest(n.t.parts, n, k)
		if n.open {
			return finding.Candidate{}, false
		}
		if c == 0 {
			if r := n.cell(k); r == ' ' && count > 0 && text.IsHan(n.cell(k+1)) { // a scanner's blank
				if size, c := n.t.longest(n.t.parts, n, k+1); c != 0 && !n.open {
					k += 1 + size
					count++
					continue
				}
			}
			break
		}
		k += size
		count++
	}
	if n.open || count == 0 || count == 1 && k-n.start < 3 || n.cell(k) == '·' {
		return finding.Candidate{}, false
	}
	left, right := n.preceding(), n.following(k)
	if n.open || right.place || n.crossed() && !left.cued() {
		return finding.Candidate{}, false
	}
	m := finding.Candidate{Kind: finding.Person, Start: n.start, End: k, Form: 0.15, Evidence: left.why | right.why}
	if n.prior.End == n.start && n.prior.End > n.prior.Start {
		m.Evidence |= finding.Typical
	}
	if count == 1 && (left.bounded || left.cued() || right.bounded || right.strong) {
		m.Form = 0.4 // 其其格: no word, and long
	}
	if count >= 2 {
		m.Form = 0.4
		m.Evidence |= finding.Typical
	}
	if (left.bounded || left.cued()) && right.bounded {
		m.Evidence |= finding.Bounded
	}
	return m, true
}
