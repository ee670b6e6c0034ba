package finding

// weakLabels say only that a number follows.
const weakLabels = " no number 编号 编码 代码 单号 流水 序号 code id号 "

// idKinds are the kinds that people call an identity or a certificate number.
const (
	idKinds    Kinds = 1<<ResidentID | 1<<HongKongID | 1<<MacauID | 1<<TaiwanID | 1<<ForeignPermit
	paperKinds       = idKinds | 1<<Passport | 1<<TravelPermit | 1<<OfficerID
)

// labelWords are in lower case; an underscore is a blank.
var labelWords = []struct {
	of    Kinds
	words string
}{
	{idKinds, "身份证 公民身份 公民身份号码 居民身份 身份号码 身份证明 身份证统一编号 身份证字号 id_card id_number id_no idcard id_num idno cardid"},
	{KindsOf(ResidentID), "居住证 户口 id sfz 身分证 一代证 二代证"},
	{paperKinds, "出入境证件 证件号 证件 证件号码 证号 证件编号 certificate_no certificate_number cert_no"},
	{KindsOf(HongKongID), "香港 港籍 hkid 香港身份证 香港居民身份证 香港永久性居民身份证 hk_id 港人"},
	{KindsOf(MacauID, TravelPermit), "澳门"},
	{KindsOf(MacauID), "澳门身份证 澳门居民身份证 澳门永久性居民身份证 bir macau_id macao_id"},
	{KindsOf(TaiwanID, TravelPermit), "台湾 台胞 臺灣 台籍"},
	{KindsOf(TaiwanID), "身份证字号 台湾身份证 國民身分證 身分證字號 字号 统一编号 taiwan_id tw_id"},
	{KindsOf(ForeignPermit), "永居证 永久居留 永居 永久居留证 永久居留身份证 五星卡 绿卡 prc_permanent_resident permanent_resident"},
	{KindsOf(Passport), "护照 護照 passport 护照号 passport_no passport_number ppt"},
	{KindsOf(TravelPermit), "通行证 回乡证 台胞证 来往内地 来往大陆 往来港澳 往来台湾 港澳证 入台证 入台许可证 入境许可证 通行证件 往来通行证 还乡证 旅行证 travel_permit permit_no " +
		"home_return_permit 大通证 赴台证"},
	{KindsOf(OfficerID), "军官 士兵证 士官 义务兵 文职 军官证 军人证 军人 警号 警官 民警 警员 警官证 军警 退役 现役 退伍 警察证 军籍 辅警 警务 " +
		"police_no badge_no badge_number officer_id 文职人员证 军证 保障卡 武警 消防员证 优待证 优抚证 残疾军人证 军属证 学员证"},
	{KindsOf(SocialSecurity), "社保 社保卡 社会保障 医保 医保卡 医疗保险 参保号 社保号 医保号 医保编号 个人编号 人员编号 电脑号 电脑编号 医保电子凭证 凭证码 " +
		"社会保障卡 社会保障号 社会保险 新农合 参合号 社会保障号码 养老保险 合作医疗 医疗保障 医疗证 社保证号 医保码 医疗证号 social_security ssn medicare_no 社保卡号 医保卡号 社会保障卡号 电子凭证 医疗卡号 保险号 参保"},
	{KindsOf(MedicalRecord), "住院号 产检号 透析号 手术编号 手术号 处方号 处方编号 医嘱号 诊疗号 建档号 床位号 病理编号 影像编号 检查编号 彩超号 内镜编号 献血编号 接种编号 影像 " +
		"病理 住院病人 住院患者 体检编号 inpatientno patientno visitno 体检 门诊号 病案号 病历号 检查号 就诊卡 就诊卡号 诊疗卡 诊疗卡号 床号 登记号 影像号 病理号 标本号 就诊号 体检号 急诊号 放射号 " +
		"超声号 住院流水号 门诊流水号 检验号 患者编号 病人编号 患者id 病人id 患者号 病人号 诊断卡 就医卡 条码 条码号 check号 check_no 住院登记号 住院编号 门诊编号 病案编号 病历编号 病历本 " +
		"住院证号 mrn medical_record medical_record_no patient_id patientid visit_no inpatient_no admission_no accession_no 送检号 检查单号 申请单号 化验单号 " +
		"留观号 留观 主索引 患者主索引 empi mr mr_号 旧片 片子 病案 病历 病例号 病例编号 住院 门诊 id号 mr_no 片号 内镜号 心电图号 受检号 住院id"},
	{KindsOf(UtilityAccount), "户号 用户号 用户编号 客户编号 电表号 表号 水表号 燃气表号 气表号 用电户号 缴费号 电表 水表 燃气表 资产号 表计 客户号 " +
		"user号 user编号 customer编号 customer号 account编号 user_no 供电户号 计量点 热力户号 暖气户号 用水户号 用气户号 燃气编号 国网编号 用户编码 客户编码 缴费码 表箱号 用气编号 用水编号 供电编号 热力编号 缴费编号 缴费户号 用电编号 结算户号 总户号 meter_no meter account_id 电能表 表具 表具号 表码 " +
		"电表编号 水表编号 燃气号 供热号 meter_number 电费户 水费户 物联表 业务户号 用电客户 用水客户"},
	{KindsOf(BankCard, BankAccount), "卡号 银行卡 银行卡号 储蓄卡 借记卡 信用卡 工资卡 card_no card_number 银行账户 收款卡 打款 银联卡 card bank_card 本人卡 转账 汇款 " +
		"工行 建行 农行 中行 招行 交行 邮储 工行卡 建行卡 农行卡 中行卡 招行卡 卡片 card_num cardno 贷记卡 一卡通"},
	{KindsOf(BankAccount), "账号 帐号 账户 帐户 开户 开户行 开户银行 存折 对公 对公户 银行账号 收款账号 收款账户 打款账号 存单 户名 汇款账号 结算户 专户 基本户 一般户 " +
		"账上 户头 汇入 转入 转至 汇至 打到 付至 付到 汇到 收款方 付款方 入账 电汇 备付金 公积金 销户 50k account account_no account_number acct a/c acc_no iban 账户号 存折号 折号 缴费账户 公户 收款人 验资户 保证金 付款账号 定期 活期 回款"},
	{KindsOf(USCC), "信用代码 统一代码 税号 纳税人识别号 纳税人 税务登记 社会信用 机构代码 组织机构代码 社会统一 识别号 uscc tax_id tax_no credit_code 税务登记号 统一社会信用代码 企业代码"},
	{KindsOf(BusinessLicence), "执照 注册号 执照号 营业执照 工商 工商注册号 营业执照注册号 营业执照号 照号 工商登记 business_licence business_license license_no " +
		"licence_no registration_no 执照注册号 工商号 营业执照编号 登记证号 注册证号 证照号 证照编号 登记编号 注册编号 登记注册 注册登记 企业注册代码 企业登记 副本编号 副本号 正本编号 工商档案 " +
		"reg_no registration business_registration 个体户 执照副本"},
	{KindsOf(Plate), "车牌 车牌号 车号 牌照 号牌 车辆 plate license_plate plate_no 驾驶 驾车 军车 警车 轿车 货车 客车 停放 停车 使馆 外交"},
	{KindsOf(VIN), "车架号 车架 vin vin码 车辆识别 识别代号 车辆识别代号 车辆识别代码 底盘号 底盘 大架号 车架码 识别代码 车驾号 大梁号 vin号"},
	{KindsOf(IMEI), "imei 串号 设备号 设备串号 手机串号 终端号 imei码 meid 机身号 设备码 入网号 imei1 imei2 imeisv 国际移动设备 串码 设备识别码 机身码"},
	{KindsOf(ICCID), "iccid sim卡 sim卡号 流量卡 卡iccid 集成电路卡 sim 通信卡 iccid号 sim_card 物联网卡 物联卡"},
	{KindsOf(IMSI), "imsi 用户识别码 国际移动用户 移动用户识别 imsi号"},
	{KindsOf(MAC), "mac 网卡 物理地址 mac地址 mac_address 硬件地址 wifi bssid"},
	{KindsOf(Landline), "电话 座机 固话 传真 固定电话 办公电话 联系电话 tel fax telephone phone 家里电话 宅电 单位电话 分机 直线 值班电话 总机 phone_no landline 来电 拨打 " +
		"致电 内线 电话号码 座机号 座机号码 传真号码 phone_number contact_number office_phone 小灵通 回拨 ☎ 📞"},
	{KindsOf(Coordinates), "坐标 经纬度 经度 纬度 定位 gps lat lng lon longitude latitude location 位置 坐标点 机位 起降点 并网点 采砂点 latlng coordinates 纬 经"},
	{KindsOf(Ticket), "工单 工单号 工单编号 受理号 受理编号 报修单 报障 投诉编号 服务单 服务单号 事件单 ticket ticket_no 派单号 派工单 诉求编号 受理单 受理单号 维修单 case_id 热线编号"},
	{KindsOf(Order), "订单 订单号 订单编号 order order_no order_id order_number 采购单 采购单号 采购订单 销售单号 交易单号 下单 交易号 商户单号 po号 交易流水 " +
		"外卖单号 流水号 支付单号 商户订单号 合同订单"},
	{KindsOf(Parcel), "运单 运单号 快递 快递单号 快递单 物流 物流单号 包裹 面单 邮件号 快件 顺丰 圆通 中通 申通 韵达 京东快递 极兔 邮政快递 ems tracking tracking_no waybill 单号查询 物流号"},
	{KindsOf(BirthDate), "出生日期 生日 出生 出生年月 出生于 生于 dob birthday date_of_birth birth_date born birthdate 出生年月日 诞生"},
	{KindsOf(Age), "年龄 现年 年纪 age 周岁 享年"},
	{KindsOf(QQ, WeChat), "qq 扣扣 企鹅 微信 微信号 wechat vx wx qq号 薇信 威信 加我 qq群 q群 群号 v信"},
	{KindsOf(Mobile), "手机 手机号 手机号码 mobile 移动电话 mobile_number mobile_no 物联网 联系方式 cellphone 手机尾号"},
	{0, "no number 单号 编号 批号 批次 批次号 型号 版本 序号 序列号 货号 凭证 凭证号 发票 发票号 发票号码 合同 合同号 合同编号 金额 余额 时间 日期 税率 密码 验证码 房号 门牌 " +
		"联行号 行号 股票代码 股票 基金代码 邮编 邮政编码 sku 物料号 物料 料号 图号 零件号 件号 产品编号 资产编号 机号 设备编号 项目编号 项目号 文号 流水 编码 条形码 " +
		"ean isbn 标准号 国标 专利号 证书编号 库存 数量 产量 总量 合计 共计 总计 单价 价格 里程 容量 功率 电量 示数 读数 本月 上月 时间戳 timestamp time date version " +
		"商品条码 商品码 serial serial_no sn s/n p/n part_no model batch invoice invoice_no sha md5 hash commit uuid guid port 端口 进程 线程 pid 错误码 error_code code 代码 会员号 会员卡 " +
		"会员卡号 门禁卡号 积分 工号 学号 准考证 准考证号 考号 座位 航班 车次 班次 期号 彩票 限额 收入 营收 成本 预算 报价 " +
		"有效期 有效期至 截止 截至 到期 阅读量 播放量 点击 访问量 人数 户数 销量 短信 尾号 排队号 取件码 提货码 预约号 挂号 任务号 任务 规格 参数 公告 期限 保单 保单号 " +
		"贷款合同号 借据号 交易时间 交易日期 申请时间 备案号 许可证号 icp备 批准文号 国药准字 学籍号 档案号 档案编号 卷宗号 产品编码 商品编码 资产 bug jira issue 需求 " +
		"trace_id traceid request_id requestid span_id 请求号 请求id 会话id"},
}
