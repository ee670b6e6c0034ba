package lexicon

// ProvinceSigns are the characters that stand for provinces on plates and in the numbers of cases.
const ProvinceSigns = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼黔"
