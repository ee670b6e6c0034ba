package person

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// nameParticles are surnames that are particles and verbs far more often: they need a label, and a typical name.
const nameParticles = "于和向同从对由与都是时全别后当连相经单应能过来把让并问行开道种随次果初原通双须终充满信才家起首种那只有国第可非还会要被" +
	"将为给但所其这在不已到得说看上下大小出进回用作做"

// Characters that begin, and that stand in, transcribed names.
const (
	transcriptFirst = "阿艾安埃奥巴白贝本比彼毕伯博卜布查达戴丹德迪丁杜多厄恩法菲费弗福富盖高戈格古哈海汉赫亨霍基吉加杰金卡凯坎康考科克肯库拉莱兰劳雷黎李里莉利列林卢鲁路罗洛马" +
		"玛迈麦曼梅门蒙米密莫穆纳娜南内尼努诺欧帕潘佩皮珀普齐乔切琼热仁日荣萨赛塞桑沙舍申圣史斯苏索塔泰坦汤唐特提图托瓦万旺威维韦温沃乌吾伍西希夏肖谢辛休雪雅亚扬耶叶伊依易永尤约扎泽詹朱卓兹佐才次央买依帕努如再祖尼斯玉克色玛居"
	transcriptRest = transcriptFirst + "丽拜拜提江尔迪孜汗古丽肯别克木买提吐鲁逊拉合不力甫甫江别提热依罕买尔开那孜艳阿卜杜哈勒来洪尤努斯乃则姆木尼牙孜色买买提敏曼苏尔塔依尔仓吉次仁顿珠卓玛央金多杰扎西旺堆" +
		"平措罗布德吉格桑边巴达瓦娃顿措姆姆尖措嘉华旦增巴图孟和其木格斯琴高娃宝音朝鲁格日乐图雅吉日娜仁托娅呼和巴雅尔牧仁苏和恩奥云塔娜琪哈斯勒立子治理伦森顿逊森什夫娃娜丝蒂琳娅露茜妮朗让雅莎丝翁诺夫斯基维奇科娃契洛芬奇波拜登普京梅克默库莱迪恩奈赞伽冈柴赖郎太田中村山本藤井木佐不都"
)

const nameTitles = "伯 婶 科 处 爸 妈 工程师 主治医师 主任医师 副主任医师 总监 大娘 先生 女士 小姐 太太 夫人 同志 老师 师傅 医生 大夫 主任 经理 总经理 律师 法官 警官 检察官 书记 处长 科长 局长 所长 院长 校长 厂长 队长 站长 组长 部长 厅长 市长 县长 镇长 乡长 行长 会长 " +
	"董事长 总监 总裁 教授 博士 医师 护士 护士长 护师 药师 技师 工程师 阿姨 叔叔 大爷 大妈 大叔 大姐 大哥 大嫂 大伯 奶奶 爷爷 伯伯 婆婆 老伯 老太 老太太 老爷子 老板 老板娘 老总 姑娘 同学 庭长 审判长 审判员 书记员 " +
	"审判长 警员 民警 教练 导演 秘书 会计 村长 主席 委员 政委 排长 连长 营长 团长 总 工 董 哥 姐 叔 姨 婶 嫂 爷 氏 大娘 婶子 嫂子 副主任 副院长 副局长 副处长 副科长 副总 副书记 副校长 副经理 工长 调度 网格员 班长 段长 店长 主管 专员 某 " +
	"女婿 师兄 师姐 师弟 师妹 学长 学姐 老人 前辈 老伯伯 主编 记者 机长 船长 司机 指导员 教导员 辅导员 班主任 家长 妈妈 爸爸 母亲 父亲"

const nameLabels = "姓名 名字 名称为 权属人 产权人 所有人 权利人 出具人 代办人 署名 落款 签名 签字 签字人 签收 收件 收货 抄送 寄件 联系 持证人 负责人 经营者 投资人 法人 法人叫 户主是 户名是 乘车人 申报人 提出人 领款人 开户名 原户主 新户主 业主姓名 孩子姓名 " +
	"登记人 记录者 记录 报告者 送检者 术者 一助 二助 麻醉 巡回 器械 授权人 被授权人 交接人 交班人 接班人 监交人 交出人 接收人 缴款人 取款人 取现人 转账人 买方 卖方 男方 女方 出租方 承租方 委托方 受托方 借款方 贷款方 出借方 首席 仲裁员 秘书 设计 校对 审核 批准 编制 会签 验收 经手 复核 制表 " +
	"受援人 会见人 债务人 债权人 被征收人 公诉人 侦查员 侦查人 讯问人 询问人 被询问人 被讯问人 见证人 病史陈述者 陈述者 代述人 代诉人 陪护 护工 主诉人 受试者 献血者 捐献者 佩戴者 佩戴人 领用人 使用人 实际使用人 安装户 用电户 用水户 用气户 操作工 调解员 发言人 点检人 确认人 许可人 副班长 成员 同行人 交易对手名称 收款方 付款方 法定监护人 " +
	"监护人签字 患者签名 医师签名 家属签名 病人家属 医师 医生 护师 护士 主刀 病例 死者 伤者 儿童 学生 户籍人 店主 老板 房主 现场人员 出庭人员 陪同人 接听人 接待人 来人 当值 值守 报告人 起草人 编写人 抽样人 采样人 检测人 批准人 主检 审定"

const nameStrong = "姓名 客户姓名 患者姓名 真实姓名 中文姓名 用户姓名 本人姓名 曾用名 名字 姓名为 姓名是 户名 开户名 账户名 户主 联系人 收件人 收货人 寄件人 申请人 当事人 被告人 原告 被告 投保人 被保险人 受益人 持卡人 法定代表人 报案人 投诉人 来电人 经办人 借款人 担保人 委托人 受托人 代理人 监护人 户籍人 被害人 证人 嫌疑人 犯罪嫌疑人 持有人 签收人 署名 落款 叫做 名叫 我叫 他叫 她叫 叫"

const nameRoles = "诉求人 反映者 来访者 求助者 咨询者 街坊 居委会主任 楼长 楼栋长 物业经理 保安 保洁 保洁员 环卫工 环卫工人 快递小哥 外卖员 外卖小哥 骑手 摊主 商贩 承租户 中介 业委会主任 社区书记 社工 志愿者 低保户 残疾人 老党员 " +
	"退休职工 退休教师 孤寡老人 留守儿童 学生家长 校长 园长 存款人 出票人 收票人 背书人 持票人 主办柜员 大堂经理 理财师 贷款客户 借款户 联名人 共有人 控股股东 财务经理 病员 孕妇 患儿母亲 护理员 主管护士 责任护士 麻醉医生 手术者 助手 第一助手 " +
	"器械护士 巡回护士 检验者 审核者 录入者 采血者 开方医生 药剂师 发药人 核对人 责任医生 值班医生 住院总 规培生 进修医生 新生儿 当班 班员 值班长 主值 副值 检修班长 焊工 电工 钳工 叉车司机 叉车工 吊车司机 行车工 操作手 质检 仓管 跟单 采购 " +
	"生产主管 车间主任 车间副主任 调度员 调度 安全总监 总工 监理 总监理工程师 监理工程师 施工员 资料员 同案犯 同案人 共同被告 代书人 遗嘱执行人 见证律师 辩护律师 承办律师 速录员 勘验人员 押解民警 被保证人 被扶养人 法定继承人 案外人 利害关系人 " +
	"债权人 债务人 管理人 投资人 前夫 前妻 男友 女友 未婚夫 未婚妻 岳父 岳母 公公 婆婆 大伯 叔叔 舅舅 姑姑 外甥 侄子 侄女 养父 养母 继父 继母 爷爷 奶奶 姥爷 姥姥 外公 外婆 我爱人 我媳妇 我先生 我太太 我孩子 我家孩子 我姥姥 我姥爷 我外婆 我外公 " +
	"队友 战友 老乡 徒弟 搭档 组员 团员 演员 教授 博士 院士 研究员 专家 顾问 评委 主讲 讲师 主持 支书 村主任 村长 镇长 乡长 县长 区长 市长 局长 所长 站长 行长 院长 会长 秘书 干事 科员 辅导员 教官 校医 网友 博主 主播 群主 房客 客商 随军家属 门卫 快递员 教练 呼救人 我姐 我哥 我弟 我妹 我舅 我叔 我姑 我姨 室友 居民 签约居民 伤员 会诊医师 受血者 干部 台籍干部 港籍被告 对方 病友 姆妈 岗位 随行配偶 代收人 受送达人 佩戴者 值班人 窗口 户名 保管 护厂队 村支书 老书记 困难职工 复议申请人 罪犯 逃犯 嫌疑人 社会人员 吸毒人员 独居老人 婚生子 妻 夫 台胞 一子 一女 长子 次女 婚后育有一子 叫什么 开户人 代办人 施工队 市民 村民 居民 群众 网民 车主 机主 卡主 业主 房东 租客 租户 老公 老婆 妻子 丈夫 爱人 儿子 女儿 孙子 孙女 父亲 母亲 我妈 我爸 我爷爷 我奶奶 我老公 我老婆 我儿子 我女儿 其父 其母 其妻 其夫 其子 其女 妹妹 姐姐 哥哥 弟弟 表哥 表弟 邻居 同事 " +
	"包工头 村会计 网格员 护线员 巡线员 装接工 司磅员 飞手 商户 户主 老客户 投资者 消费者 献血者 经营者 失主 卖家 买家 老人 儿童 孩子 婚生女 婚生子 养女 养子 职工 员工 操作工 工人 农民工 司机 驾驶员 送货司机 民警 交警 法警 辅警 协警 城管队员 侦查员 检察官 法官 书记员 审判员 审判长 人民陪审员 陪审员 仲裁员 执行员 " +
	"律师 辩护人 公证员 鉴定人 大夫 医生 护士 护士长 护工 医师 护师 主管护师 药师 技师 主任 副主任 科长 处长 局长 书记 经理 客户经理 大堂经理 理财经理 店长 厂长 队长 班长 副班长 组长 工长 值长 值班员 点检员 质检员 保管员 采购员 业务员 销售代表 工程师 厂家 财务 法务 会计 出纳 柜员 行员 网管 后勤 信息科 保卫科 病理科 质量部 台区经理 " +
	"先生 女士 小姐 尊敬的 亲爱的 敬爱的 工人代表 学员 规培学员 实习生 患者家属 家属 翻译 带队 原告 被告 第三人 上诉人 被上诉人 被执行人 申请人 受害人 受援人 受试者 同胞 台干 病例 权属人 近亲属 配偶 外籍专家 老师 同学 同志 团伙成员 现任 技术员 安全员 队员 学生 家长 班主任 嫌犯 罪犯 逃犯 网名 绰号 昵称 户名 备注 户主叫 法人代表 " +
	"Mr Mr. Ms Ms. Mrs Mrs. Dear dear @"

const nameVerbs = "请 已交 转交 实名 写的 开店的 自述 叫他 叫她 真名 佢叫 登录 绑定到 持有人 名字叫 名叫 姓名叫 推举 选出 推选 换成了 换成 登记到 给付 受理原告 哪个 就是 男子就是 请问是 却是 找 叫 请 由 让 给 与 和 及 同 跟 向 对 把 将 被 据 经 问 派 是 系 为 通知 联系 联系到 联系了 转告 告知 委托 邀请 感谢 谢谢 安排 我叫 我是 名叫 自称 自称是 自述 化名 写着 写 责令 解聘 聘任 任命 提名 表扬 批评 点名 点名表扬 送达 约谈 约 陪 师从 通报 变更为 更换为 改为 起诉 举报 控告 指控 传唤 伙同 抓获 释放 逮捕 拘留 " +
	"兹有 兹证明 证明 今收到 收到 借到 今借到 经查 经核 现有 另有 决定对 被告知 寻找 采访 询问 咨询 讯问 接 替 代 帮 嫁给 娶 转给 交给 发给 寄给 还给 借给 汇给 卖给 送给 抄给 指派 指定 委派 临时由 不认识 谁是 以及 或 或者 欢迎 祝贺 祝 冒充 假冒 顶替 收件 抄送质量部 质问 联系过 拨打 备注 欠 诉 诉被告 的是 老板是 病理科 信息科 上午 下午 机动 夜班 白班 姓"

const nameWeak = "的 是 和 与 及 同 跟 对 向 为 由 让 给 把 将 被 据 经 系 以及 或 或者 接 替 代 帮 问 有 姓 为 另 现有 另有 欠 诉"

const nameNext = "开具 缴纳 补缴 更换 维修 安装 检修 巡检 值守 签发 审批 审核 复核 盖章 回复 受理 处置 上报 协助 配合 组织 召开 参与 进入 离开 返回 前来 携带 取走 领走 上车 下车 骑车 打卡 加班 迟到 早退 辞职 退休 休假 晋升 违约 逾期 逃逸 自首 坦白 承认 否认 " +
	"盗窃 诈骗 殴打 威胁 辱骂 跟踪 骚扰 侵占 挪用 转移 隐匿 变卖 赠与 抚养 赡养 探视 分居 复婚 生育 怀孕 服药 输液 抽血 化验 拍片 转院 转科 抢救 昏迷 发烧 咳嗽 呕吐 过敏 骨折 感染 复查 挂号 缴费 重启 做 换 顶 问道 说道 回答 补充 解释 表态 牵头 跟进 对接 反馈 告知 变更为 变更 变为 登记为 师从 下病危 值班 登记结婚 说 称 问 答 表示 认为 介绍 反映 来电 致电 咨询 询问 要求 请求 申请 提出 希望 同意 拒绝 确认 签字 签名 签收 来电反映 来电咨询 来电催办 办理 反复 险些 走失 要转 不在 在家 名下 所有 共有 家中 家里 家属 家 本人 二人 三人 两人 等人 等 夫妇 夫妻 您好 你好 你 您 她 他 那户 先生 女士 收 亲收 转 的 了 因 于 与 和 及 在 把 被 从 到 去 对 将 以 就 也 都 已 正 曾 又 还 才 不 没 是 为 系 有 想 要 能 会 给 让 向 持 欠 诉 任 供述 供认 陈述 证言 证实 指认 讯问时 提供 出具 主张 经常 " +
	"报 占道 绕路 拒不 拒绝 拒收 弃车 驾驶 取得 驾车 乘坐 伙同 出生 生于 现住 住 负责 汇报 指示 带教 陪同 完成 处理 登记 随手 随访 代述 代取 代办 接听 接电话 诉 主诉 自述 昨晚 昨天 今天 明天 当时 现在 现场 未 未经 违规 违反 擅自 私自 顶岗 顶班 请假 离职 入职 任职 使用 控制 架设 抽成 提出 系初犯 翻供 经抗 治疗 住院 入院 出院 就诊 准备 查看 护理 被骗 丢失 遗失 持股 缴存 享有 继承 放弃 自愿 应于 须于 须 应 下落 不明 一行 等 同志 拖欠 酗酒 打人 制止 劝离 门诊 主任 师傅 名义 绰号 外号 别名 曾用名 男 女 号 岁 共 均 各 " +
	"夸 骂 打 拿 送 带 来 走 回 转账 支付 收款 付款 汇款 存款 贷款 担保 抵押 邮箱 电话 手机 微信 账户 账号 银行卡 身份证 驾驶证 护照 户口 的卡 之妻 之子 之父 之母 之女 父母 起 止 缺席 到庭 出庭 到场 签到 签署 阅读 已阅读 看 听 看到 发现 认出 认识 觉得 知道 进行 开车 开始 打电话 报警 报案 报名 死亡 去世 受伤 摔倒 怎么 什么 一直 突然 故意 可能 应该 必须 不肯 不服 未婚 已婚 离婚 结婚 行贿 受贿 偷 抢 骗 卖 买"

const nameKin = "妻子 丈夫 爱人 老公 老婆 配偶 儿子 女儿 孙子 孙女 父亲 母亲 妈妈 爸爸 爷爷 奶奶 外婆 外公 婆婆 公公 哥哥 姐姐 弟弟 妹妹 家属 家人 家长 同事 邻居"

const namePlaces = "建材 机械 电子 化工 五金 物流 贸易 装饰 家具 纺织 印刷 包装 塑料 置业 控股 故居 纪念馆 博物馆 陈列馆 基地 定理 定律 方程 变换 效应 体育 品牌 农业 航空城 面馆 菜馆 饭馆 餐馆 火锅 烧饼 豆腐 药业 制药 地产 证券 基金会 大桥 大闸 隧道 水库 水闸 水电站 风景区 景区 公园 遗址 古镇 高速 铁路 港区 开发区 治理工程 年糕 儿童医院 城 烟草 服饰 食品 烧烤 奶茶 村 镇 乡 县 市 区 路 街 巷 庄 屯 湾 桥 庙 祠 沟 岗 店 厂 集团 公司 医院 学校 小区 花园 大厦 广场 大道 大街 胡同 里弄 街道 社区 酒店 宾馆 饭店 超市 药店 药房 诊所 事务所 律师事务所 银行 支行 车站 机场 码头 港 河 湖 江 山 岛 岭 寨 堡 坝 坪 塘 洞 塔 寺 观 宫 殿 陵 墓 园 苑 阁 楼 馆 中学 小学 大学 学院 股份 有限 科技 实业 商贸 餐饮 牌 氏 派 式 型 版 级 号线 站 门 家村 家庄 家湾 家镇 家桥 家口 州 省 国 朝 族 语"

const nameKeys = "custnm customernm name custname realname clientname membername employeename studentname drivername accountname holdername payername payeename receivername sendername consigneename passengername guestname doctorname nursename legalname legalperson applicantname insuredname userrealname attn payer from to cc fullname realname caller callername patient patientname plaintiff defendant consignee consigner operator user payer payee receiver recipient sender contact contactname contactperson owner ownername customer customername author partyname party applicant insured holder cardholder doctor nurse witness agent driver guest student teacher employee member person buyer seller tenant landlord manager signer signature nickname creator handler assignee reporter xingming"

// nameCompound begin the surnames of two characters.
const nameCompound = "欧太端上司东独南万闻夏诸尉公赫澹皇宗濮申钟长宇鲜闾子亓巫颛壤漆乐宰谷拓夹轩令段百呼羊微梁左西第贯即达褚吴纳归叶完耶爱觉富那钮佟瓜尔贺侯屈豆斛沮秃乞宿库乌哥仆安范张慕仲歐東諸長獨鍾"

// nameRareCompound are ordinary words more often.
const nameRareCompound = "东方 西门 东门 南门 第五 百里 东里 公上 公门 公户 公山 东宫 长孙 公西 公良 公玉 公仪 公坚 公伯 公祖 公乘 子车 子书 子桑 南荣 安陵 西陵 乐正 夹谷 谷梁 左丘 吴铭 归海 太史 太叔 微生 即墨"

// oftenGiven corrects how typical characters are of given names.
func oftenGiven() map[lexicon.Tier]string {
	return map[lexicon.Tier]string{lexicon.Common: "丹珠天晴乐家", lexicon.Usual: "守一保全余世仕寿亨登炳大喜财怀喆相妹牛娃阿二茶燕", lexicon.Rare: "有三四五六"}
}

func newTables() *tables {
	t := &tables{costs: lexicon.Costs(), syllables: lexicon.Pinyin(), left: newCueTable(), right: newCueTable(), keys: map[string]bool{}, parts: newCueTable(), fixed: newCueTable()}
	t.characters()
	t.latinWords()
	for _, list := range []struct {
		cue         lexicon.Cue
		left, right rank
	}{
		{lexicon.Label, isLabel, 0},
		{lexicon.TitleBefore, isRole, 0},
		{lexicon.Relation, isRole, isRelation},
		{lexicon.Verb, isVerb, 0},
		{lexicon.TitleAfter, 0, isTitle},
		{lexicon.Next, 0, isNext},
	} {
		words := strings.Join(lexicon.Cues(list.cue), " ")
		if list.left != 0 {
			t.add(t.left, words, list.left, endsCue)
		}
		if list.right == isTitle { // these say too little behind a name
			for _, word := range strings.Fields("男 女 等 等人 某 某某 氏 妹 弟 一行 本人") {
				words = strings.ReplaceAll(" "+words+" ", " "+word+" ", " ")
			}
		}
		if list.right != 0 {
			t.add(t.right, words, list.right, beginsCue)
		}
	}
	t.add(t.left, nameLabels, isLabel, endsCue)
	t.add(t.left, nameStrong, isLabel|isStrong, endsCue)
	t.add(t.left, nameRoles, isRole, endsCue)
	t.add(t.left, nameVerbs, isVerb, endsCue)
	t.add(t.left, nameWeak, isWeak, endsCue)
	t.add(t.left, "人 员 者 师 长 手 工 生 方 户 主 民 警 属 干 匠", isSuffix, endsCue)
	t.add(t.right, nameTitles, isTitle|isAlone, beginsCue)
	t.add(t.right, "先生 女士 小姐 太太 老师 师傅 医生 大夫 主任 经理 总 工 阿姨 叔叔 大爷 大妈 大叔 大姐 大哥 律师 法官 警官 书记 处长 科长 局长 院长 老板 同志 教授", isPolite, beginsCue)
	t.add(t.right, "种 个 些 项 天 日 年 月 位 地 处 次 类 种原因 方面 市 省 县 区 公司 单位 医院 学校 小区", isThingOf, beginsCue)
	t.add(t.right, "男 女 住 现住 住址 身份证 公民身份 证件 电话 手机 联系 住院号 病历号 门诊号 病案号 床 汉族 年龄 性别 出生 籍贯 警号 卡号 账号 车牌 微信 邮箱 护照", isNear, beginsCue)
	t.add(t.right, nameNext, isNext, beginsCue)
	t.add(t.right, nameKin, isRelation, beginsCue)
	t.add(t.right, namePlaces, isPlace, beginsCue)
	t.add(t.fixed, strings.Join(lexicon.Namesakes(), " "), isPlace, beginsFixed)
	t.add(t.fixed, nameLabels, isLabel, beginsFixed)
	t.add(t.fixed, strings.Join(lexicon.Cues(lexicon.Label), " ")+" 证件号 证件 许可人 农民 农民工", isLabel, beginsFixed)
	for _, cue := range []lexicon.Cue{lexicon.TitleBefore, lexicon.Relation, lexicon.TitleAfter} {
		t.add(t.fixed, strings.Join(lexicon.Cues(cue), " "), isPlace, beginsFixed)
	}
	t.add(t.parts, nameParts, isNext, mayPart|mayTranscribe)
	for _, k := range strings.Fields(nameKeys) {
		t.keys[k] = true
		t.keyEnds[lastTwo(k[len(k)-2], k[len(k)-1])] = true
	}
	return t
}

// of is the place of a common character.
func (t *tables) of(r rune) *character {
	place, _ := lexicon.Place(r)
	return &t.han[place]
}

// characters fills the table of single characters.
func (t *tables) characters() {
	for r := rune(text.HanFirst); r < text.HanLast; r++ {
		c := t.of(r)
		if n, tier := lexicon.Surname([]rune{r}); n == 1 {
			c.rank |= isSurname
			c.tier = uint8(tier) + 1
			if lexicon.BeginsWords(r) {
				c.rank |= isWordy
				if c.tier == tierRare {
					c.tier = tierWord
				}
			}
		}
		c.given = uint8(lexicon.Given(r))
	}
	mark := func(runes string, f func(*character)) {
		for _, r := range runes {
			f(t.of(r))
		}
	}
	mark(nameParticles, func(c *character) { c.tier = min(c.tier, tierWord) })
	for tier, runes := range oftenGiven() {
		mark(runes, func(c *character) { c.given = max(c.given, uint8(tier)) })
	}
	mark("家国山河江海水里子道学音经文才天东西南北中方人生心力金石木林花草", func(c *character) { c.rank |= isThing })
	mark("刘陈赵吴徐郭郑邓冯曹彭蔡潘袁董蒋卢崔廖姚邱谭韦邹薛阎侯郝邵龚尹施赖俞翟倪樊耿骆裴詹阮缪柯祁邬闫韩吕沈汪姜戚秦窦褚邢佟岑卞瞿娄冉芦栾逄亓仝晏蔺佘滕蒙",
		func(c *character) { c.rank |= isDistinct; c.rank &^= isWordy })
	for _, word := range strings.Fields(nameParts) {
		first := true
		for _, r := range word {
			c := t.of(r)
			c.rank |= inTranscript
			if first {
				c.rank |= mayPart | mayTranscribe
			}
			first = false
		}
	}
	mark("是为叫系即号床", func(c *character) { c.rank |= endsCue })
	mark("小老阿", func(c *character) { c.rank |= mayNick })
	mark(nameCompound, func(c *character) { c.rank |= mayCompound })
	mark(transcriptFirst, func(c *character) { c.rank |= mayTranscribe })
	mark(transcriptRest, func(c *character) { c.rank |= inTranscript })
}
