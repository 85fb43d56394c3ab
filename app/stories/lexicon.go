package stories

// word is an entry of the lexicon in both languages. A word that is held back never plays its role in training (no meal is
// of it, nobody of that name lives anywhere), but it does occur in lists and in filler: a model has met it as a word.
type word struct {
	en, zh string
	held   bool
	she    bool // names only
}

func (w word) in(lang string) string {
	if lang == "zh" {
		return w.zh
	}
	return w.en
}

var names = []word{
	{en: "Tom", zh: "汤姆"},
	{en: "Anna", zh: "安娜", she: true},
	{en: "Ben", zh: "小本"},
	{en: "Lily", zh: "莉莉", she: true},
	{en: "Max", zh: "马克"},
	{en: "Mia", zh: "米娅", she: true},
	{en: "Sam", zh: "山姆"},
	{en: "Zoe", zh: "佐伊", she: true},
	{en: "Leo", zh: "里奥"},
	{en: "Ella", zh: "艾拉", she: true},
	{en: "Jack", zh: "杰克"},
	{en: "Ruby", zh: "露比", she: true},
	{en: "Xiao Ming", zh: "小明"},
	{en: "Xiao Hong", zh: "小红", she: true},
	{en: "Xiao Gang", zh: "小刚"},
	{en: "Xiao Li", zh: "小丽", she: true},
	{en: "Peter", zh: "彼得"},
	{en: "Rosa", zh: "罗莎", she: true},
	{en: "Oscar", zh: "奥斯卡"},
	{en: "Emma", zh: "艾玛", she: true},
	{en: "Hugo", zh: "雨果", held: true},
	{en: "Nina", zh: "妮娜", held: true, she: true},
	{en: "Felix", zh: "菲力", held: true},
	{en: "Clara", zh: "克拉", held: true, she: true},
}

var foods = []word{
	{en: "bread", zh: "面包"},
	{en: "noodles", zh: "面条"},
	{en: "a sandwich", zh: "三明治"},
	{en: "rice", zh: "米饭"},
	{en: "soup", zh: "热汤"},
	{en: "dumplings", zh: "饺子"},
	{en: "an apple", zh: "苹果"},
	{en: "a banana", zh: "香蕉"},
	{en: "cheese", zh: "奶酪"},
	{en: "fish", zh: "烤鱼"},
	{en: "pizza", zh: "比萨"},
	{en: "salad", zh: "沙拉"},
	{en: "eggs", zh: "鸡蛋"},
	{en: "a pear", zh: "梨子"},
	{en: "tofu", zh: "豆腐"},
	{en: "cake", zh: "蛋糕"},
	{en: "beef", zh: "牛肉"},
	{en: "a potato", zh: "土豆"},
	{en: "corn", zh: "玉米"},
	{en: "grapes", zh: "葡萄"},
	{en: "yogurt", zh: "酸奶"},
	{en: "a cookie", zh: "饼干"},
	{en: "melon", zh: "西瓜"},
	{en: "carrots", zh: "胡萝卜"},
	{en: "a burger", zh: "汉堡"},
	{en: "beans", zh: "豆子"},
	{en: "pancakes", zh: "煎饼"},
	{en: "porridge", zh: "稀饭"},
	{en: "cherries", zh: "樱桃", held: true},
	{en: "mango", zh: "芒果", held: true},
	{en: "sushi", zh: "寿司", held: true},
	{en: "nuts", zh: "坚果", held: true},
	{en: "plums", zh: "李子", held: true},
	{en: "honey", zh: "蜂蜜", held: true},
}

var times = []word{
	{en: "in the morning", zh: "早上"},
	{en: "at noon", zh: "中午"},
	{en: "in the afternoon", zh: "下午"},
	{en: "in the evening", zh: "晚上"},
	{en: "at night", zh: "夜里"},
}

var objects = []word{
	{en: "key", zh: "钥匙"},
	{en: "book", zh: "书本"},
	{en: "ball", zh: "皮球"},
	{en: "lamp", zh: "台灯"},
	{en: "cup", zh: "杯子"},
	{en: "hat", zh: "帽子"},
	{en: "ring", zh: "戒指"},
	{en: "map", zh: "地图"},
	{en: "coin", zh: "硬币"},
	{en: "phone", zh: "手机"},
	{en: "pen", zh: "钢笔"},
	{en: "clock", zh: "闹钟"},
	{en: "knife", zh: "小刀"},
	{en: "letter", zh: "信封"},
	{en: "camera", zh: "相机"},
	{en: "umbrella", zh: "雨伞"},
	{en: "bottle", zh: "瓶子"},
	{en: "glove", zh: "手套"},
	{en: "mirror", zh: "镜子"},
	{en: "candle", zh: "蜡烛"},
}

var sides = []word{
	{en: "in", zh: "里面"},
	{en: "under", zh: "下面"},
	{en: "behind", zh: "后面"},
	{en: "near", zh: "旁边"},
	{en: "on", zh: "上面"},
}

var spots = []word{
	{en: "bed", zh: "床铺"},
	{en: "shelf", zh: "书架"},
	{en: "drawer", zh: "抽屉"},
	{en: "door", zh: "大门"},
	{en: "table", zh: "桌子"},
	{en: "sofa", zh: "沙发"},
	{en: "window", zh: "窗户"},
	{en: "chair", zh: "椅子"},
	{en: "bag", zh: "书包"},
	{en: "desk", zh: "书桌"},
	{en: "basket", zh: "篮子"},
	{en: "stove", zh: "炉子"},
	{en: "carpet", zh: "地毯"},
	{en: "cabinet", zh: "柜子"},
	{en: "piano", zh: "钢琴", held: true},
	{en: "bench", zh: "长凳", held: true},
	{en: "ladder", zh: "梯子", held: true},
}

var colours = []word{
	{en: "red", zh: "红色"},
	{en: "blue", zh: "蓝色"},
	{en: "green", zh: "绿色"},
	{en: "white", zh: "白色"},
	{en: "black", zh: "黑色"},
	{en: "yellow", zh: "黄色"},
	{en: "brown", zh: "棕色"},
	{en: "pink", zh: "粉色"},
	{en: "gray", zh: "灰色", held: true},
	{en: "purple", zh: "紫色", held: true},
}

var boxes = []word{
	{en: "box", zh: "盒子"},
	{en: "safe", zh: "保险箱"},
	{en: "chest", zh: "宝箱"},
	{en: "locker", zh: "储物柜"},
	{en: "gate", zh: "铁门"},
	{en: "suitcase", zh: "行李箱"},
}

var animals = []word{
	{en: "cat", zh: "小猫"},
	{en: "dog", zh: "小狗"},
	{en: "rabbit", zh: "兔子"},
	{en: "bird", zh: "小鸟"},
	{en: "horse", zh: "小马"},
	{en: "duck", zh: "鸭子"},
	{en: "mouse", zh: "老鼠"},
	{en: "fox", zh: "狐狸"},
	{en: "turtle", zh: "乌龟"},
	{en: "pig", zh: "小猪"},
	{en: "frog", zh: "青蛙"},
	{en: "bear", zh: "小熊"},
	{en: "goat", zh: "山羊"},
	{en: "lion", zh: "狮子"},
}

var cities = []word{
	{en: "Paris", zh: "巴黎"},
	{en: "London", zh: "伦敦"},
	{en: "Rome", zh: "罗马"},
	{en: "Beijing", zh: "北京"},
	{en: "Tokyo", zh: "东京"},
	{en: "Cairo", zh: "开罗"},
	{en: "Berlin", zh: "柏林"},
	{en: "Madrid", zh: "马德里"},
	{en: "Shanghai", zh: "上海"},
	{en: "Moscow", zh: "莫斯科"},
	{en: "Delhi", zh: "德里"},
	{en: "Sydney", zh: "悉尼"},
	{en: "Oslo", zh: "奥斯陆"},
	{en: "Boston", zh: "波士顿", held: true},
	{en: "Vienna", zh: "维也纳", held: true},
	{en: "Seoul", zh: "首尔", held: true},
}

var toys = []word{
	{en: "kite", zh: "风筝"},
	{en: "drum", zh: "小鼓"},
	{en: "doll", zh: "娃娃"},
	{en: "robot", zh: "机器人"},
	{en: "violin", zh: "小提琴"},
	{en: "flute", zh: "笛子"},
	{en: "guitar", zh: "吉他"},
	{en: "train", zh: "火车"},
	{en: "boat", zh: "小船"},
	{en: "bike", zh: "单车"},
	{en: "balloon", zh: "气球"},
	{en: "puzzle", zh: "拼图"},
	{en: "mask", zh: "面具"},
	{en: "tent", zh: "帐篷"},
	{en: "rope", zh: "绳子"},
	{en: "shell", zh: "贝壳"},
}

// What only filler speaks of.
var (
	moods = []word{
		{en: "small", zh: "小小的"},
		{en: "old", zh: "古老的"},
		{en: "quiet", zh: "安静的"},
		{en: "bright", zh: "明亮的"},
		{en: "long", zh: "长长的"},
		{en: "cold", zh: "寒冷的"},
		{en: "warm", zh: "温暖的"},
		{en: "strange", zh: "奇怪的"},
		{en: "soft", zh: "柔软的"},
		{en: "beautiful", zh: "美丽的"},
	}
	lands = []word{
		{en: "river", zh: "河流"},
		{en: "hill", zh: "小山"},
		{en: "forest", zh: "森林"},
		{en: "lake", zh: "湖水"},
		{en: "road", zh: "道路"},
		{en: "field", zh: "田野"},
		{en: "bridge", zh: "石桥"},
		{en: "village", zh: "村庄"},
		{en: "sea", zh: "大海"},
		{en: "valley", zh: "山谷"},
	}
	folk = []word{
		{en: "farmers", zh: "农夫们"},
		{en: "children", zh: "孩子们"},
		{en: "sailors", zh: "水手们"},
		{en: "students", zh: "学生们"},
		{en: "neighbors", zh: "邻居们"},
		{en: "travelers", zh: "旅人们"},
		{en: "musicians", zh: "乐手们"},
		{en: "painters", zh: "画家们"},
	}
	acts = []word{
		{en: "sang songs", zh: "唱歌"},
		{en: "walked slowly", zh: "慢慢走路"},
		{en: "told jokes", zh: "讲笑话"},
		{en: "took a rest", zh: "休息"},
		{en: "looked around", zh: "四处看看"},
		{en: "waited", zh: "等待"},
		{en: "danced", zh: "跳舞"},
		{en: "worked hard", zh: "努力工作"},
	}
	seasons = []word{
		{en: "spring", zh: "春天"},
		{en: "summer", zh: "夏天"},
		{en: "autumn", zh: "秋天"},
		{en: "winter", zh: "冬天"},
	}
	weather = []word{
		{en: "rain", zh: "雨"},
		{en: "snow", zh: "雪"},
		{en: "wind", zh: "风"},
		{en: "fog", zh: "雾"},
	}
	feelings = []word{
		{en: "happy", zh: "开心"},
		{en: "tired", zh: "疲惫"},
		{en: "excited", zh: "激动"},
		{en: "proud", zh: "自豪"},
		{en: "surprised", zh: "惊讶"},
		{en: "calm", zh: "平静"},
	}
)

// slots are the names by which templates ask for a word.
var slots = map[string][]word{
	"name": names, "food": foods, "time": times, "object": objects, "side": sides, "spot": spots, "colour": colours,
	"box": boxes, "animal": animals, "city": cities, "toy": toys, "mood": moods, "land": lands, "folk": folk, "act": acts,
	"season": seasons, "weather": weather, "feeling": feelings,
}

// Lexicon lists every word of a language that templates can ask for, each once.
func Lexicon(lang string) []string {
	seen := map[string]bool{}
	var out []string
	for _, list := range [][]word{
		names, foods, times, objects, sides, spots, colours, boxes, animals, cities, toys,
		moods, lands, folk, acts, seasons, weather, feelings,
	} {
		for _, w := range list {
			if s := w.in(lang); !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}
