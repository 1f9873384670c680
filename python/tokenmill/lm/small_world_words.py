"""The words and the sentences of the small world. A table; small_world.py says how it is read.

In a template, `{hero=hero}` draws a word and gives it a name, `{hero}` says it again, `{hero.his}` in another form;
`{=time}` draws one that nobody comes back to. `{=mood-mood}` draws any but the one of that name, `{spot=spot@place}` one that
belongs to the place. Every sentence of a story is drawn from a row of templates; a name that later rows say is drawn by all of
its row, from the same words.
"""

Word = dict[str, str]
"""Each form of a word by its name; the plain one has none."""


def _plain(text: str) -> tuple[Word, ...]:
    return tuple({"": word.strip()} for word in text.split(","))


def _people(text: str, he: str, his: str, him: str) -> tuple[Word, ...]:
    forms = {"he": he, "He": he.title(), "his": his, "His": his.title(), "him": him}
    return tuple({**word, **forms} for word in _plain(text))


def _things(text: str, it: str, was: str, are: str) -> tuple[Word, ...]:
    return tuple({**word, "it": it, "was": was, "is": are} for word in _plain(text))


def _foods(text: str) -> tuple[Word, ...]:
    return tuple(
        {**word, "was": "were" if word[""].endswith("s") else "was"} for word in _plain(text)
    )


def _with_article(text: str) -> tuple[Word, ...]:
    return tuple(
        {**word, "a": f"{'an' if word[''][0] in 'aeiou' else 'a'} {word['']}"}
        for word in _plain(text)
    )


_GIRLS = ("she", "her", "her")
_BOYS = ("he", "his", "him")

_SPOTS = {
    "garden": "under the rose bush, behind the shed, beside the pond, among the tulips",
    "park": "under the slide, behind the fountain, beside the bench, on the swings",
    "forest": "under a fern, behind a fallen tree, beside the brook, between the roots",
    "beach": "under a boat, behind a dune, beside a rock pool, between the shells",
    "farm": "under the wagon, behind the barn, beside the hens, in the hay",
    "market": "under a stall, behind the baskets, beside the well, between the barrels",
    "meadow": "under a bush, behind the fence, beside the stream, in the tall grass",
    "castle": "under the bridge, behind the gate, beside the tower, on the old stairs",
}
_ANIMALS = {
    # what it says, what it eats
    "kitten": ("mewed", "milk, fish"),
    "puppy": ("whined", "meat, bread"),
    "duck": ("quacked", "corn, oats"),
    "lamb": ("bleated", "clover, hay"),
    "bird": ("chirped", "seeds, crumbs"),
    "mouse": ("squeaked", "cheese, nuts"),
    "frog": ("croaked", "flies, worms"),
    "owl": ("hooted", "beetles, moths"),
}
_WEATHER = {
    "rain": "the rain began to fall",
    "wind": "a cold wind began to blow",
    "snow": "the snow came down thick and fast",
    "fog": "a grey fog rolled in",
    "thunder": "thunder rumbled over the hills",
    "hail": "hail rattled down from the sky",
    "storm": "a wild storm broke loose",
    "dark": "it grew very dark",
}

WORDS: dict[str, tuple[Word, ...]] = {
    # Heroes and friends have names of their own, so that a name tells who is who.
    "hero": (
        *_people("Mia, Lily, Anna, Zoe", *_GIRLS),
        *_people("Ben, Tom, Max, Sam", *_BOYS),
    ),
    "friend": (
        *_people("Ella, Nora, Ruth, Ivy", *_GIRLS),
        *_people("Leo, Finn, Otto, Jack", *_BOYS),
    ),
    "grown_up": (
        *_people("the baker, the teacher, the miller, the weaver", *_GIRLS),
        *_people("the farmer, the fisherman, the gardener, the shepherd", *_BOYS),
    ),
    "parent": _plain("mother, father, grandmother, grandfather"),
    "time": _plain(
        "One day, One morning, One afternoon, One evening, One spring day, One summer day, "
        "One autumn day, One winter day, On Monday, On Tuesday, On Wednesday, On Thursday, "
        "On Friday, On Saturday, On Sunday, Last week"
    ),
    "color": _with_article("red, blue, green, yellow, white, black, orange, purple"),
    "thing": (
        *_things("ball, kite, drum, hat, doll", "it", "was", "is"),
        *_things("boots, mittens, marbles", "them", "were", "are"),
    ),
    "toy": _plain("train, robot, boat, violin, clock, tent, puppet, sled"),
    "place": tuple({"": place} for place in _SPOTS),
    "spot": tuple(word for spots in _SPOTS.values() for word in _plain(spots)),
    "animal": tuple({"": name, "cried": cried} for name, (cried, _) in _ANIMALS.items()),
    "food": tuple(word for _, foods in _ANIMALS.values() for word in _foods(foods)),
    "size": _with_article("tiny, little, young, old, fluffy, skinny, ugly, odd"),
    "state": _plain("hungry, lonely, cold, tired, lost, scared, sad, thirsty"),
    "pet": _plain("Pip, Dot, Bean, Coco, Tuft, Pepper, Star, Biscuit"),
    "weather": tuple({"": name, "came": came} for name, came in _WEATHER.items()),
    "air": _plain(
        "sunny, warm, quiet, lovely, windy, bright, cool, busy, green, golden, sleepy, wide, misty, "
        "secret, pretty, merry"
    ),
    "mood": _plain(
        "happy, cheerful, excited, jolly, glad, proud, curious, brave, calm, playful, lively, "
        "hopeful, content, eager, joyful, bold"
    ),
    "how": _plain(
        "softly, loudly, slowly, bravely, kindly, gently, quickly, happily, calmly, warmly, shyly, "
        "politely, quietly, gladly, firmly, sweetly"
    ),
    "length": _plain(
        "an hour, a while, a long time, a minute, half the day, some time, two hours, a moment"
    ),
    "game": _plain(
        "ran in circles, sang a song, told a joke, danced about, climbed a wall, jumped for joy, "
        "played hide and seek, counted the clouds, rolled down a hill, splashed in a puddle, "
        "whistled a tune, made a wreath, threw pebbles, hopped on one leg, built a tower, "
        "drew a face"
    ),
    "busy": _plain(
        "reading a book, eating an apple, drawing a map, picking flowers, riding a pony, "
        "chasing a butterfly, baking a cake, fixing a wheel, feeding the geese, painting a sign, "
        "watching the ants, digging a hole, mending a net, flying a kite, writing a letter, "
        "humming a tune"
    ),
    "critter": _with_article(
        "snail, beetle, spider, worm, lizard, toad, ladybug, hedgehog, mole, squirrel, ant, eel, "
        "bee, crab, moth, earwig"
    ),
    "treat": _plain(
        "cake, soup, pie, honey, jam, pancakes, cookies, cherries, plums, pudding, cocoa, toast, "
        "grapes, butter, noodles, raisins"
    ),
    "job": _plain(
        "washed the windows, swept the yard, fed the pigs, watered the plants, carried the wood, "
        "picked the pears, cleaned the stove, painted the door"
    ),
    "day": _plain("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, evening"),
    "number": _plain("two, three, four, five"),
    "metal": _plain("gold, silver, copper, shiny"),
    "wish": _plain(
        "fly a kite, have a picnic, look for shells, pick berries, build a hut, catch a fish, "
        "find a treasure, paint a picture"
    ),
    "shelter": _with_article(
        "cave, old mill, hollow tree, round tent, barn, little hut, empty cellar, wagon"
    ),
    "comfort": _plain(
        "told stories, sang songs, shared an apple, played cards, counted to a hundred, "
        "held hands, drank warm tea, made a fire, solved riddles, lit a candle, beat a drum, "
        "dried their socks, made up names, drew pictures, roasted nuts, talked about home"
    ),
    "night": _plain("on the shelf, beside the bed, by the window, near the lamp"),
    "end": _plain(
        "laughed, waved, danced, sang, yawned, cheered, grinned, giggled, clapped, nodded, smiled, "
        "whistled, hummed, bowed, skipped, chuckled"
    ),
}


BELONGS: dict[str, dict[str, tuple[Word, ...]]] = {
    "spot": {place: _plain(spots) for place, spots in _SPOTS.items()},
    "other_spot": {
        spot[""]: tuple(other for other in _plain(spots) if other != spot)
        for spots in _SPOTS.values()
        for spot in _plain(spots)
    },
    "food": {name: _foods(foods) for name, (_, foods) in _ANIMALS.items()},
}
"""Words that go with another: kind, then the other word."""
WORDS["other_spot"] = WORDS["spot"]

Row = tuple[str, ...]

_LOST: tuple[Row, ...] = (
    (
        "{=time}, {hero=hero} took {hero.his} {color=color} {thing=thing} to the {=air} {place=place}.",
        "{=time}, {hero=hero} went to the {=air} {place=place} with {hero.his} {color=color} {thing=thing}.",
    ),
    (
        "{hero.He} {=game} and felt {=mood}.",
        "For {=length}, {hero} {=game}.",
        "{hero.He} was {=mood} and {=game}.",
        "There {hero.he} {=game} {=how}.",
    ),
    (
        "But then {hero.his} {thing} {thing.was} gone!",
        "After {=length}, {hero.he} could not find {hero.his} {thing}.",
        '"Oh no, where {thing.is} my {color} {thing}?" cried {hero}.',
        '"My {thing} {thing.is} gone," said {hero} {=how}.',
    ),
    (
        "{friend=friend} was close by, {=mood} and {=busy}.",
        "{hero.He} ran {=how} to {friend=friend}, who was {=busy}.",
    ),
    (
        '"I will help you," said {friend} {=how}.',
        '"We will find {thing.it}," said {friend} {=how}.',
        "{friend} stopped and {=end} {=how}.",
    ),
    (
        "They looked {spot=spot@place}, but found only {critter.a=critter} and {.a=critter-critter}.",
        "They saw {.a=critter} {spot=spot@place}, and {friend} {=end}.",
    ),
    (
        "After {=length}, {friend} {=end} and found the {thing} {=other_spot@spot}.",
        "Then {hero} looked {=how} {=other_spot@spot}, and there {thing.was} the {thing}!",
    ),
    (
        '"Thank you, {friend}," said {hero} {=how}, and gave {friend.him} some {=treat}.',
        "{hero} {=end} and shared {hero.his} {=treat} with {friend}.",
        "They {=end} and ate {treat=treat} with {=treat-treat}.",
    ),
    (
        "Then {hero} and {friend} {=game} and {=end} {=how}.",
        "Then they {=end} and went home, {mood=mood} and {=mood-mood}.",
    ),
)
_WISHED: tuple[Row, ...] = (
    (
        "{hero=hero} was {=mood} and wished for {color.a=color} {toy=toy}.",
        "{=time}, {hero=hero} saw {color.a=color} {toy=toy} and wanted it.",
    ),
    (
        '"It costs {price=number} {metal=metal} coins," said {hero.his} {parent=parent} {=how}.',
        "But {hero.his} {parent=parent} did not have {price=number} {metal=metal} coins.",
    ),
    (
        "So {hero} went to {boss=grown_up} and {job=job} {=how}.",
        "So every {=day} {hero} {job=job} for {boss=grown_up}.",
    ),
    (
        "It was hard, but {hero.he} was {=mood} and worked {=how}.",
        "{hero.He} worked {=how} and {=game} when it was done.",
        "{hero.He} worked for {=length} and then ate {treat=treat} with {=treat-treat}.",
    ),
    (
        "{boss.He} {=end} {=how} and gave {hero.him} {price} {metal} coins.",
        '"You {job} so well," said {boss} {=how}, and gave {hero.him} the {metal} coins.',
    ),
    (
        "On {=day} {hero} {=game} and bought the {color} {toy}.",
        "With the {price} coins {hero.he} bought the {toy}, and some {treat=treat} and {=treat-treat} too.",
    ),
    (
        "{hero.His} {parent} {=end} {=how} and {hero} {=game}.",
        '"What a {=air} {color} {toy}," said {hero.his} {parent} {=how}.',
    ),
    (
        "That night the {toy} stood {=night}, and {hero} was {mood=mood} and {=mood-mood}.",
        "{hero} put the {toy} {=night} and {=end} {=how}.",
    ),
)
_FED: tuple[Row, ...] = (
    (
        "{=time}, {hero=hero} was walking {=how} home from the {=air} {place=place}.",
        "{=time}, {hero=hero} was at the {=air} {place=place}, {=busy}.",
    ),
    (
        "There was {size.a=size} {animal=animal} {=spot@place}.",
        "{hero.He} saw {size.a=size} {animal=animal} {=spot@place}.",
    ),
    (
        "The {animal} was {state=state} and {animal.cried} {=how}.",
        "It {animal.cried} {=how}, because it was {state=state}.",
    ),
    (
        '"Are you {state}, {size} {animal}?" asked {hero} {=how}.',
        '"You poor {animal}," said {hero} {=how}.',
        '"I am {=mood}, but you are {state}," said {hero}.',
    ),
    (
        "{hero.He} had some {=treat}, but the {animal} wanted {food=food@animal}.",
        "{hero.He} {=end} and came back with {=treat} and {food=food@animal}.",
    ),
    (
        "The {animal} ate the {food} {=how} and {=game}.",
        "Soon the {food} {food.was} gone, and the {animal} felt {mood=mood} and {=mood-mood}.",
    ),
    (
        '"I will call you {pet=pet}," said {hero} {=how}.',
        "{hero} {=end} and named the {animal} {pet=pet}.",
    ),
    (
        "{pet} followed {hero} {=how} and slept {=night}.",
        "Every {=day} {pet} came to the {place}, {=mood} as ever.",
        "That {=day} they {game=game} and then {=game-game}.",
    ),
    (
        "{pet} {=end} {=how} and was never {state} again.",
        "{hero} and {pet} {=game}, and nobody was {state} any more.",
    ),
)
_SHELTERED: tuple[Row, ...] = (
    (
        "{=time}, {hero=hero} and {friend=friend} walked {=how} to the {=air} {place=place}.",
        "{=time}, {hero=hero} met {friend=friend} at the {=air} {place=place} and {=end}.",
    ),
    (
        "They were {mood=mood} and {=mood-mood} and wanted to {wish=wish}.",
        '"Let us {wish=wish}," said {hero} {=how}.',
        '"I am {=mood}, so let us {wish=wish}," said {friend} {=how}.',
    ),
    (
        "But after {=length} {weather.came=weather}.",
        "They {=game}, but then {weather.came=weather}.",
    ),
    (
        "{friend} was afraid of the {weather} and hid {=spot@place}.",
        '"I do not like the {weather}," said {friend} {=how}.',
    ),
    (
        '"Come with me," said {hero} {=how}, and took {friend.him} to {.a=shelter}.',
        "So {hero} led {friend.him} {=how} to {.a=shelter}.",
    ),
    (
        "There they {=comfort} and ate {treat=treat} with {=treat-treat}.",
        "In the corner sat {.a=critter}, and they {comfort=comfort} and {=comfort-comfort}.",
    ),
    (
        "When they {=end} and looked out {=how}, the {weather} was gone.",
        "At last there was no more {weather}, and {friend} {=end} {=how}.",
    ),
    (
        "They {=end} and {=game}, and then they could {wish}.",
        '"Now we can {wish}," said {friend} {=how}, and {hero} {=end}.',
    ),
)

PLOTS: dict[str, tuple[Row, ...]] = {
    "lost": _LOST,
    "wished": _WISHED,
    "fed": _FED,
    "sheltered": _SHELTERED,
}
