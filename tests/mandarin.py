"""Everyday Mandarin, and how far what a recogniser hears is from it."""

from __future__ import annotations

import re
import unicodedata

import jiwer

SENTENCES = (
    "今天早上下了一场大雨，路上有点堵。",
    "请问去火车站应该坐哪一路公交车？",
    "我妈妈每天晚上都要去公园散步。",
    "这家餐厅的牛肉面非常好吃。",
    "明天下午我们在图书馆门口见面吧。",
    "他昨天感冒了，所以没有来上班。",
    "你能帮我把窗户关上吗？",
    "孩子们在操场上高兴地踢足球。",
    "春天来了，院子里的花都开了。",
    "我想买一张去上海的火车票。",
    "老师让我们回家以后写一篇文章。",
    "医生说你要多喝水，早点休息。",
    "那本小说我已经看了三遍了。",
    "周末我们一起去爬山，好不好？",
    "这件衣服颜色不错，就是有点贵。",
    "弟弟长大以后想当一名飞行员。",
    "外面太冷了，出门记得戴帽子。",
    "会议改到星期四上午举行。",
    "爷爷喜欢一边喝茶一边听音乐。",
    "我的手机没有电了，可以借用一下你的吗？",
    "学习外语最重要的是多听多说。",
    "昨天的电影很有意思，大家都笑了。",
    "请把这封信交给办公室的王经理。",
    "小猫躲在桌子下面不肯出来。",
    "北京的秋天天气凉快，非常舒服。",
    "我们家附近新开了一家超市。",
    "她唱歌唱得很好，跳舞也不错。",
    "飞机还有半个小时就要起飞了。",
    "这个问题太难，我不知道怎么回答。",
    "吃完晚饭以后，全家人坐在一起看电视。",
    "请大家安静，现在开始上课。",
    "他每天骑自行车去学校。",
    "中国有很多美丽的山和河。",
    "姐姐在银行工作，平时非常忙。",
    "冬天的湖面结了一层厚厚的冰。",
    "我把钥匙忘在办公室里了。",
    "新来的同学普通话说得很标准。",
    "水果店的苹果又大又甜。",
    "如果明天不下雨，我们就去海边玩。",
    "这座大桥是去年才建成的。",
    "请你说慢一点，我听不清楚。",
    "他们打算明年春天结婚。",
    "厨房里飘来一阵饭菜的香味。",
    "科学家发现了一种新的材料。",
    "坐地铁比开车更快，也更方便。",
    "奶奶给我们讲了一个有趣的故事。",
    "夏天的夜晚，天上有很多星星。",
    "谢谢你的帮助，我以后会更加努力。",
    "商店晚上九点关门，我们要快一点。",
    "不管遇到什么困难，都不要放弃。",
)

_DIGITS = dict(zip("0123456789", "零一二三四五六七八九", strict=True))


def characters(text: str) -> str:
    """Chinese characters for comparison: no marks, digits one by one."""
    plain = "".join(_DIGITS.get(character, character) for character in unicodedata.normalize("NFKC", text))
    return re.sub(r"[^\u4e00-\u9fff]", "", plain)


def syllables(text: str) -> list[str]:
    """Pinyin without tones."""
    from pypinyin import lazy_pinyin

    return [str(syllable) for syllable in lazy_pinyin(characters(text))]


def error_rates(wanted: list[str], heard: list[str]) -> tuple[float, float]:
    """Error rates of characters and of syllables without tones, over all texts together."""
    by_character = jiwer.cer([characters(text) for text in wanted], [characters(text) or "無" for text in heard])
    by_syllable = jiwer.wer(
        [" ".join(syllables(text)) for text in wanted], [" ".join(syllables(text)) or "-" for text in heard]
    )
    return float(by_character), float(by_syllable)
