package stories

// Templates name what they hold in braces: {1} and {2} are the keys of a fact, {v} is its value, {p} the pronoun of {1};
// any other word is a slot of the lexicon, drawn anew each time it stands there. A caret ({2^}) asks for a capital letter.
// What is under held is never used in training.
var englishPhrases = phrases{
	space: " ", stop: ".", list: ", ", lastOfList: " and ", untold: "not told",
	he: "he", she: "she", his: "his", her: "her",
	ask: "\nQuestion: ", answer: "\nAnswer:", recall: "\nRecall: ", again: [2]string{"List: ", "\nAgain:"},
	food: "{food}", place: "{side} the {spot}", pet: "a {colour} {animal}",
	facts: map[Relation]wording{
		Meal: {
			tell:    []string{"{2^}, {1} ate {v}.", "{2^} {1} ate {v}.", "{2^}, {1} had {v}.", "{2^}, {1} enjoyed {v}.", "{2^}, the meal of {1} was {v}.", "What {1} ate {2} was {v}."},
			pronoun: []string{"{2^}, {p} ate {v}.", "{2^} {p} ate {v}.", "{2^}, {p} had {v}."},
			back:    []string{"{1} ate {v} {2}.", "{1} had {v} {2}.", "{1} enjoyed {v} {2}.", "There was {v} for {1} {2}."},
			update:  []string{"No, {2} {1} ate {v}.", "In truth, {1} ate {v} {2}."},
			ask:     []string{"What did {1} eat {2}?", "What did {1} have {2}?", "{2^}, what was the meal of {1}?", "Do you know what {1} ate {2}?"},
			held:    []string{"{1}, {2}, ate {v}."},
			heldAsk: []string{"{2^}, what did {1} eat?"},
		},
		Code: {
			tell:    []string{"The secret code of the {1} {2} is {v}.", "The code of the {1} {2} is {v}.", "Remember this: the secret code of the {1} {2} is {v}.", "To open the {1} {2}, use the code {v}.", "The {1} {2} opens with {v}."},
			back:    []string{"The number {v} is the code of the {1} {2}.", "Use {v} to open the {1} {2}."},
			update:  []string{"Later, the code of the {1} {2} was changed to {v}.", "Now the code of the {1} {2} is {v}."},
			ask:     []string{"What is the secret code of the {1} {2}?", "What is the code of the {1} {2}?", "Which code opens the {1} {2}?", "How can you open the {1} {2}?"},
			held:    []string{"The {1} {2} has the secret code {v}."},
			heldAsk: []string{"What number is the code of the {1} {2}?"},
		},
		Place: {
			tell:    []string{"{name} put the {1} {v}.", "The {1} is {v}.", "{name} left the {1} {v}.", "{name} saw the {1} {v}.", "The place of the {1} is {v}."},
			back:    []string{"If you look {v}, you can find the {1}.", "Look {v} to see the {1}."},
			update:  []string{"Later, {name} put the {1} {v}.", "Now the {1} is {v}."},
			ask:     []string{"Where is the {1}?", "Where was the {1}?", "In what place is the {1}?"},
			held:    []string{"You can find the {1} {v}."},
			heldAsk: []string{"Where can you find the {1}?"},
		},
		Pet: {
			tell:    []string{"{1} has {v}.", "The pet of {1} is {v}.", "{1} keeps {v}.", "The friend of {1} is {v}."},
			back:    []string{"There is {v} that lives with {1}.", "Here comes {v}, the pet of {1}."},
			ask:     []string{"What pet does {1} have?", "Which pet does {1} keep?", "What animal lives with {1}?"},
			held:    []string{"As a pet, {1} has {v}."},
			heldAsk: []string{"What is the pet of {1}?"},
		},
		Home: {
			tell:    []string{"{1} lives in {v}.", "The home of {1} is in {v}.", "{1} stays in {v}.", "The house of {1} is in {v}."},
			back:    []string{"In the city of {v} lives {1}.", "The city of {v} is the home of {1}."},
			update:  []string{"Later, {1} moved to {v}.", "Now {1} lives in {v}."},
			ask:     []string{"Where does {1} live?", "In which city does {1} live?", "Where does {1} stay?", "Where is the house of {1}?"},
			held:    []string{"{1} has a home in {v}."},
			heldAsk: []string{"Where is the home of {1}?"},
		},
		Finder: {
			tell:    []string{"The {1} was found by {v}.", "The one who found the {1} was {v}.", "They lost the {1}, but it was found by {v}."},
			back:    []string{"Then {v} found the {1}.", "One day, {v} found the {1}.", "It was {v} who saw the {1} first."},
			ask:     []string{"Who found the {1}?", "Who was the finder of the {1}?", "By whom was the {1} found?"},
			held:    []string{"By the road, the {1} was found by {v}."},
			heldAsk: []string{"Who was it that found the {1}?"},
		},
		Owner: {
			tell:    []string{"{1} has the {v}.", "{1} took the {v} home.", "{1} owns the {v}.", "Long ago, {1} bought the {v}."},
			back:    []string{"The {v} belongs to {1}.", "The owner of the {v} is {1}."},
			ask:     []string{"What is the code of {1}?", "What is {1}'s code?", "Which code belongs to {1}?", "What code must {1} use?"},
			held:    []string{"At home, {1} has the {v}."},
			heldAsk: []string{"What code does {1} have?"},
		},
	},
	filler: []string{
		"The {mood} {land} was {mood} that day.",
		"Some {folk} {act} near the {land}.",
		"In {season}, the {land} is {mood}.",
		"Many {folk} came to the {mood} {land}.",
		"The {weather} came from the {land}.",
		"After a while, the {weather} stopped.",
		"Nobody knew why the {land} was so {mood}.",
		"The {folk} were {feeling}.",
		"It was a {mood} day in {season}.",
		"The {folk} {act} and then {act}.",
		"Every {season}, the {folk} return to the {land}.",
		"There was {weather} over the {mood} {land}.",
		"Between the {land} and the {land} there was a {mood} {land}.",
		"The {folk} talked about the {mood} {weather}.",
		"At the market there were many things: {food}, {food} and {food}.",
		"The {folk} liked the color {colour}.",
		"The {folk} painted the {spot} in {colour}.",
		"The {folk} talked about {city} and {city}.",
		"A song of the {folk} was called {name}.",
	},
}

// tales are little stories of their own, a line for each sentence; {hero}, {friend}, {found}, {hue}, {meal} and {he} stay
// the same through one tale.
var englishTales = tales{
	lines: [][]string{
		{"Once upon a time, there was a {mood} {animal} named {hero}.", "Long ago, a {animal} named {hero} lived near the {land}."},
		{"{hero} lived near the {land} with {his} friend {friend}.", "{hero} had a good friend named {friend}."},
		{"Every day they walked to the {land} and played.", "They liked the {mood} {land} very much.", "In {season}, they played near the {land}.", ""},
		{"One day, {hero} found a {hue} {found} near the {land}.", "One {season} day, {hero} found a {hue} {found}."},
		{"{he^} was very {feeling}.", "{hero} felt {feeling}.", ""},
		{"\"Look at this {found}!\" said {hero}.", "{hero} showed the {found} to {friend}.", "{he^} took the {hue} {found} home."},
		{"\"What a {mood} {found}!\" said {friend}.", "{friend} was {feeling} too.", "{friend} wanted to play with the {found}.", ""},
		{"They played with the {hue} {found} until the {weather} came.", "They played together all day.", ""},
		{"When they were hungry, they ate {meal} together.", "After that, {hero} and {friend} ate {meal}."},
		{"At the end of the day, {hero} was {feeling}.", "{hero} and {friend} went home and slept well.", "{hero} gave the {found} to {friend}."},
		{"The end."},
	},
	asks: []taleAsk{
		{"What did {hero} find?", "a {hue} {found}"},
		{"Who is the friend of {hero}?", "{friend}"},
		{"What did they eat?", "{meal}"},
		{"Who is the story about?", "{hero}"},
	},
}
