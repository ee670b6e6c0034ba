package classify

import "testing"

func TestAddressTry(t *testing.T) {
	for _, text := range []string{
		"浙江省杭州市西湖区文三路138号3幢2单元501室", "家住浦东张江碧波路690号3栋302，电话", "望京SOHO塔1 2308", "城关镇解放路12号", "3号楼2单元501室", "城关镇李家村3组", "住址：河北省保定市竞秀区", "反映锦绣花园3栋501漏水", "万达斜对面的阳光花园3-2-501",
		"国务院办公厅（2024）12号文件", "解放路很堵", "北京市朝阳区人民法院", "市民来电反映小区供暖不足，联系电话13800138000，希望尽快处理。",
		"浙江省 杭州市 西湖区 文三路12号 3栋501", "人民路一百二十三号锦绣花园十二栋二单元三零二室",
	} {
		var s string
		set := New(Address)
		set.Each(text, func(g Segment) {
			if g.Class != "" {
				s += "«" + g.Text + "»"
			} else {
				s += g.Text
			}
		})
		t.Log(s)
	}
}
