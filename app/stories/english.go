package stories

var english = []Story{
	{
		ID: "meals", Lang: "en",
		Text: "In the morning, Xiao Ming ate bread. The old road was quiet that day. At noon, he ate noodles. " +
			"Some children danced near the river. In the evening, he ate a sandwich. The fog came from the lake.",
		Asks: []Ask{
			{"What did Xiao Ming eat in the evening?", "a sandwich"},
			{"What did Xiao Ming eat at noon?", "noodles"},
			{"What did Xiao Ming eat in the morning?", "bread"},
		},
	},
	{
		ID: "places", Lang: "en",
		Text: "Anna put the key under the sofa. The lamp is on the desk. Ben left the umbrella behind the door. " +
			"Rosa put the camera in the cabinet. The ring is near the window.",
		Asks: []Ask{
			{"Where is the umbrella?", "behind the door"},
			{"Where is the key?", "under the sofa"},
			{"Where is the camera?", "in the cabinet"},
		},
	},
	{
		ID: "codes", Lang: "en",
		Text: "The secret code of the red box is 4827. Many travelers came to the quiet village. " +
			"The secret code of the blue safe is 1953. It was a cold day in winter. The secret code of the green chest is 7306.",
		Asks: []Ask{
			{"What is the secret code of the blue safe?", "1953"},
			{"What is the secret code of the red box?", "4827"},
			{"What is the secret code of the green chest?", "7306"},
		},
	},
	{
		ID: "cities", Lang: "en",
		Text: "Lily lives in Rome. Max lives in Cairo. The home of Emma is in Oslo. Oscar lives in Tokyo. Mia lives in Madrid.",
		Asks: []Ask{
			{"Where does Max live?", "Cairo"},
			{"Where does Emma live?", "Oslo"},
			{"Where does Lily live?", "Rome"},
		},
	},
	{
		ID: "pets", Lang: "en",
		Text: "Tom has a black cat. The neighbors were happy. Zoe has a white rabbit. After a while, the rain stopped. " +
			"Leo has a green turtle. Peter has a brown dog.",
		Asks: []Ask{
			{"What pet does Zoe have?", "a white rabbit"},
			{"What pet does Peter have?", "a brown dog"},
			{"What pet does Leo have?", "a green turtle"},
		},
	},
	{
		ID: "long", Lang: "en",
		Text: "It was a warm day in spring. The farmers worked hard and then told jokes. In the morning, Xiao Hong had porridge. " +
			"Between the hill and the lake there was a long bridge. The wind came from the sea. Many sailors came to the small village. " +
			"At noon, Xiao Hong ate dumplings. Some musicians sang songs near the bridge. Nobody knew why the forest was so quiet. " +
			"The students were tired. In summer, the valley is beautiful. In the afternoon, Xiao Hong ate grapes. " +
			"There was fog over the old field. After a while, the wind stopped. Every autumn, the painters return to the valley. " +
			"In the evening, Xiao Hong ate fish. The children walked slowly and then took a rest. The travelers talked about the soft rain. " +
			"Some neighbors waited near the road. The bright river was cold that day.",
		Asks: []Ask{
			{"What did Xiao Hong eat at noon?", "dumplings"},
			{"What did Xiao Hong eat in the evening?", "fish"},
			{"What did Xiao Hong eat in the morning?", "porridge"},
		},
	},
}
