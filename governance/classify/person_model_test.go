package classify

import (
	"slices"
	"strings"
	"testing"
)

// judged are texts of which no list decides who is named: only how usual the name is, what the words around it are, and what the same
// characters are as words.
func judged() map[string][]string {
	return map[string][]string{
		"no cue before":      {"«刘建军»突发胸痛送急诊", "昨晚«赵丽娟»把钥匙落在车里", "«何晓东»撤回了一条消息", "那天«吴海涛»没打卡", "«冯玉兰»抱着孩子站在走廊里"},
		"behind a verb":      {"问过«陈志强»，他说没收到", "撞上«张建华»停在路边的车", "推了«许文静»一把", "顶«孙国栋»的班"},
		"short":              {"«邓超»说他明天来", "让«徐静»去一趟", "«郭磊»，男，汉族", "家属«吕芳»已到派出所"},
		"words cross":        {"机主«张文»不知情", "原告«马山»诉称"},
		"in a row":           {"«李建国»«赵秀英»到场", "成员：«何伟东»、«薛冬梅»、«罗佳怡»", "«郑爱华» «蒋文静» «胡志强»"},
		"named before":       {"姓名：«白雪梅»。后来«白雪梅»补交了材料"},
		"blanks of scanners": {"患者«龙 国伟»，男", "姓名：«付 江晨»"},
		"nicknames":          {"«小韩»下午把材料送来", "«老谢»昨天请假了", "找«小曹»签字"},
		"before a title":     {"«王建国»主任说不行", "«蒋»工看一下", "«郝»大夫今天停诊", "和«谢»师傅争执起来", "«刘志远»先生收", "«徐»老师来了。", "今天«黄»处长来了。", "上次«李»处长答应过", "大学«周»处长负责此事", "请示处长«李新»处长", "会议由«王»处长«李新»处长主持"},
		"between marks":      {"«金新民»，男，45岁", "«梅长青»，男，45岁", "«李石»，男，45岁"},
	}
}

func TestNamesThatNoListDecides(t *testing.T) {
	for form, lines := range judged() {
		for _, line := range lines {
			text, want := names(line)
			if got := found(text); !slices.Equal(got, want) {
				t.Errorf("%s: %q: found %q, want %q", form, text, got, want)
			}
		}
	}
}

// TestWordsThatLookLikeNames: the same characters, or the same places, without anybody.
func TestWordsThatLookLikeNames(t *testing.T) {
	for _, text := range strings.Fields(`黄杨和女贞都是绿篱。 让路权归属一目了然 生成后把公钥交给运维 贺电已经发出 谈成的项目不多 白雪覆盖了光伏板 李子熟了
		万一下雨就改期 石英砂到货了 高峰期限流 请张贴在公告栏 向前台咨询 和平年代 由于天气原因延期 方便的话请回电 经费由财政承担 马路对面的药店 成功率很高
		金融街附近 黄金周加班 常年招工 江水上涨 全国统一 何时开工 任意一台 安全出口在左边 严禁烟火 申请已受理 水利工程 华北地区有雨 钱款已退回
		高新区的企业 毛利率下降 牛奶过期了 时间紧 连续三天 单独核算 应当回避 边境口岸 解除合同 管理员登录 项目经理部 宋体四号字 关于印发的通知`) {
		if got := found(text); len(got) > 0 {
			t.Errorf("%q: found %q", text, got)
		}
	}
}
