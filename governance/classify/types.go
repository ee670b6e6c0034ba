package classify

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
)

// Class names a kind of sensitive value. Policies, audit records and tokens use these names.
type Class string

// The classes.
const (
	ResidentID      Class = "cn_resident_id" // 18 characters, the old 15, residence permits of Hong Kong, Macau and Taiwan people
	Mobile          Class = "cn_mobile"
	Landline        Class = "cn_landline"
	BankCard        Class = "bank_card"
	BankAccount     Class = "bank_account" // of companies, and old passbooks
	Email           Class = "email"
	IPv4            Class = "ipv4"
	IPv6            Class = "ipv6"
	MAC             Class = "mac_address"
	Plate           Class = "cn_plate"
	VIN             Class = "vin"
	USCC            Class = "cn_uscc"             // unified social credit code
	BusinessLicence Class = "cn_business_licence" // the old number of 15 digits
	Passport        Class = "cn_passport"
	TravelPermit    Class = "cn_travel_permit"  // to Hong Kong, Macau and Taiwan, and of their people to the mainland
	ForeignPermit   Class = "cn_foreign_permit" // permanent residence of foreigners
	HongKongID      Class = "hk_id"
	MacauID         Class = "macau_id"
	TaiwanID        Class = "tw_id"
	OfficerID       Class = "cn_officer_id" // of the army and the police
	SocialSecurity  Class = "cn_social_security"
	MedicalRecord   Class = "medical_record"
	UtilityAccount  Class = "utility_account" // of power, water, gas, and of meters
	CourtCase       Class = "court_case"
	WeChat          Class = "wechat"
	QQ              Class = "qq"
	Coordinates     Class = "coordinates"
	IMEI            Class = "imei"
	ICCID           Class = "iccid"
	IMSI            Class = "imsi"
	Crypto          Class = "crypto_address"
	Secret          Class = "api_secret"
	Person          Class = "person"
	Address         Class = "address"

	// Optional classes.

	Ticket    Class = "ticket_number"
	Order     Class = "order_number"
	Parcel    Class = "parcel_number"
	Document  Class = "document_number"
	BirthDate Class = "birth_date"
	Age       Class = "age"
	Company   Class = "company"
)

// Type describes a class.
type Type struct {
	Class            Class
	Tag              string // short Chinese name, which pseudonyms carry; none is the beginning of another
	English, Chinese string
	Optional         bool // of interest to some, and too harmless or too frequent to be masked unless a policy asks for it
	Checked          bool // values carry check characters, or have a form that leaves no doubt
}

var types = [finding.Count]Type{
	finding.ResidentID:      {ResidentID, "身份证", "Resident identity number", "居民身份证号", false, true},
	finding.Mobile:          {Mobile, "手机", "Mobile number", "手机号", false, false},
	finding.Landline:        {Landline, "座机", "Landline number", "固定电话", false, false},
	finding.BankCard:        {BankCard, "银行卡", "Bank card number", "银行卡号", false, true},
	finding.BankAccount:     {BankAccount, "账号", "Bank account number", "银行账号", false, false},
	finding.Email:           {Email, "邮箱", "E-mail address", "电子邮箱", false, true},
	finding.IPv4:            {IPv4, "IPv4", "IPv4 address", "IPv4 地址", false, true},
	finding.IPv6:            {IPv6, "IPv6", "IPv6 address", "IPv6 地址", false, true},
	finding.MAC:             {MAC, "MAC", "MAC address", "MAC 地址", false, true},
	finding.Plate:           {Plate, "车牌", "Vehicle plate", "车牌号", false, false},
	finding.VIN:             {VIN, "车架号", "Vehicle identification number", "车架号（VIN）", false, true},
	finding.USCC:            {USCC, "信用代码", "Unified social credit code", "统一社会信用代码", false, true},
	finding.BusinessLicence: {BusinessLicence, "执照号", "Business licence number (old)", "营业执照注册号（旧）", false, true},
	finding.Passport:        {Passport, "护照", "Passport number", "护照号", false, false},
	finding.TravelPermit:    {TravelPermit, "通行证", "Travel permit number", "通行证号（港澳台）", false, false},
	finding.ForeignPermit:   {ForeignPermit, "永居证", "Foreign permanent resident number", "外国人永久居留证号", false, true},
	finding.HongKongID:      {HongKongID, "香港证", "Hong Kong identity number", "香港身份证号", false, true},
	finding.MacauID:         {MacauID, "澳门证", "Macau identity number", "澳门身份证号", false, false},
	finding.TaiwanID:        {TaiwanID, "台湾证", "Taiwan identity number", "台湾身份证号", false, true},
	finding.OfficerID:       {OfficerID, "军警证", "Military or police number", "军官证、警号", false, false},
	finding.SocialSecurity:  {SocialSecurity, "社保号", "Social security or medical insurance number", "社保卡、医保卡号", false, false},
	finding.MedicalRecord:   {MedicalRecord, "病历号", "Medical record number", "病历号、住院号", false, false},
	finding.UtilityAccount:  {UtilityAccount, "户号", "Utility account or meter number", "户号、表号", false, false},
	finding.CourtCase:       {CourtCase, "案号", "Case number", "案号", false, true},
	finding.WeChat:          {WeChat, "微信", "WeChat account", "微信号", false, false},
	finding.QQ:              {QQ, "QQ", "QQ number", "QQ 号", false, false},
	finding.Coordinates:     {Coordinates, "坐标", "Coordinates", "经纬度坐标", false, false},
	finding.IMEI:            {IMEI, "IMEI", "Device number (IMEI)", "设备号（IMEI）", false, true},
	finding.ICCID:           {ICCID, "ICCID", "SIM card number (ICCID)", "SIM 卡号（ICCID）", false, true},
	finding.IMSI:            {IMSI, "IMSI", "Subscriber number (IMSI)", "用户识别码（IMSI）", false, false},
	finding.Crypto:          {Crypto, "钱包", "Crypto-currency address", "数字货币地址", false, true},
	finding.Secret:          {Secret, "密钥", "Secret or key", "密钥、口令", false, false},
	finding.Person:          {Person, "姓名", "Name of a person", "人名", false, false},
	finding.Address:         {Address, "地址", "Postal address", "地址", false, false},
	finding.Ticket:          {Ticket, "工单号", "Ticket number", "工单号", true, false},
	finding.Order:           {Order, "订单号", "Order number", "订单号", true, false},
	finding.Parcel:          {Parcel, "运单号", "Parcel number", "运单号", true, false},
	finding.Document:        {Document, "文号", "Document number", "文号", true, false},
	finding.BirthDate:       {BirthDate, "生日", "Date of birth", "出生日期", true, false},
	finding.Age:             {Age, "年龄", "Age", "年龄", true, false},
	finding.Company:         {Company, "公司", "Company name", "公司名称", true, false},
}

// Types describes every class, in a fixed order.
func Types() []Type { return append([]Type(nil), types[:]...) }

// TypeOf describes a class.
func TypeOf(c Class) (t Type, ok bool) {
	if k := kindOf(c); k < finding.Count {
		return types[k], true
	}
	return Type{}, false
}

// kindOf returns the number of a class, kinds if there is none.
func kindOf(c Class) finding.Kind {
	for k := range finding.Count {
		if types[k].Class == c {
			return k
		}
	}
	return finding.Count
}

// Classes returns every class, in the order of [Types].
func Classes() []Class {
	out := make([]Class, len(types))
	for n, t := range types {
		out[n] = t.Class
	}
	return out
}
