package classify

import (
	"testing"
)

func wantOne(t *testing.T, examples []example) {
	t.Helper()
	all := New()
	for _, e := range examples {
		text, start, end := e.parse()
		var of []Finding
		for _, f := range all.Find(text) {
			if f.Class == e.class || e.class == "" {
				of = append(of, f)
			}
		}
		if e.class == "" {
			if len(of) != 0 {
				t.Errorf("%q: %+v", text, of)
			}
			continue
		}
		if len(of) != 1 || of[0].Start != start || of[0].End != end {
			t.Errorf("%s in %q: %+v, want [%d,%d)", e.class, text, all.Find(text), start, end)
		}
		want := scanPieces(all, text)
		for cut := range len(text) {
			if got := scanPieces(all, text[:cut], text[cut:]); got != want {
				t.Fatalf("%q cut at %d:\n%s\n%s", text, cut, got, want)
			}
		}
	}
}

func TestAccounts(t *testing.T) {
	wantOne(t, []example{
		{WeChat, "加我微信«zhang_wei88»聊"},
		{WeChat, "微信号：«wxid_a1b2c3d4e5»"},
		{WeChat, "vx «lihua2024»，备注来意"},
		{WeChat, "V信：«Happy-Life_01»"},
		{WeChat, "（微信：«abc12345»）"},
		{WeChat, "Wechat ID: «tom.»"[:0] + "WeChat：«tom_lee1990»"},
		{WeChat, "薇信是«sunny520abc»"},
		{QQ, "QQ：«12345678»"},
		{QQ, "扣扣«987654321»加一下"},
		{QQ, "QQ号码为«1029384756»"},
		{QQ, "QQ群 «66778899»"},
		{Email, "邮箱«12345678@qq.com»"},
		{Email, "«zhangsan[at]example.com»"},
		{Email, "«zhangsan(at)example(dot)com»"},
		{Email, "«zhang.san 艾特 example.com.cn»"},
		{"", "微信支付 alipay88 都行"},
		{"", "QQ 音乐 2024 版"},
		{"", "wx 接口返回 errcode"},
		{"", "企鹅 12 只"},
		{"", "在微信公众号里回复 hello"},
	})
}

func TestCryptoAddresses(t *testing.T) {
	wantOne(t, []example{
		{Crypto, "地址 «1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa» 转账"},
		{Crypto, "«3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy»"},
		{Crypto, "«bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq»"},
		{Crypto, "«BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4»"},
		{Crypto, "«0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed»"},
		{Crypto, "USDT打到«TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t»。"},
		{Crypto, "«0xde709f2102306220921060314715629080e2fb77»"},
		{"", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"},
		{"", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdp"},
		{"", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"},
		{"", "commit 3f786850e387550fdab836ed7e6dc881de23001b"},
	})
}
