"""Word lists and the makers of names and values: half of them real words, half made of syllables, so that a model must
copy what it reads instead of remembering it. Made-up names and all values obey the split of source.py, and the held-out
set has made-up names only; real names and plain vocabulary are not split.
"""

import keyword

FIRST_NAMES = (
    "Ada Alan Alice Amir Ana Anna Arne Astrid Ben Bella Bruno Carla Carlos Chen Clara Dana Daniel David Diego Dora Elena Eli "
    "Emil Emma Erik Eva Farah Felix Finn Frank Fred Gina Grace Greta Hana Hans Hugo Ida Igor Ines Ivan Jack Jan Jana Jim Joan "
    "John Jonas Julia Karl Kate Kim Klara Lars Laura Lea Leo Lina Linda Lisa Luca Lucy Maja Marco Maria Mark Marta Max Mia "
    "Mila Mira Nadia Nina Noah Nora Olga Oscar Otto Paul Pedro Peter Petra Priya Rosa Ruth Sam Sara Sofia Sven Tara Tim Tom "
    "Uma Vera Victor Wanda Yara Yuki Zoe Bob Jane Mary Steve Omar Lena Nils Rita Simon Theo").split()
CITIES = (
    "Amsterdam Athens Austin Bangkok Barcelona Basel Berlin Bern Bogota Boston Bremen Brussels Budapest Cairo Chicago Cologne "
    "Copenhagen Dallas Delhi Denver Dublin Florence Geneva Ghent Glasgow Hamburg Hanoi Havana Helsinki Istanbul Jakarta Kyiv "
    "Kyoto Lagos Leeds Lima Lisbon London Lyon Madrid Malmo Manila Miami Milan Montreal Moscow Munich Nairobi Naples Osaka "
    "Oslo Ottawa Oxford Paris Perth Porto Prague Quito Riga Rome Seattle Seoul Seville Sofia Sydney Tallinn Tokyo Toronto "
    "Trieste Tunis Turin Utrecht Vienna Vilnius Warsaw York Zagreb Zurich").split()
COLORS = "red green blue yellow black white orange purple brown pink gray silver golden".split()
ANIMALS = "cat dog horse cow sheep goat duck goose fox wolf bear lion tiger owl eagle frog snake rabbit mouse pig".split()
FOODS = ("apple pear plum lemon melon bread cheese soup rice pasta pizza salad cake honey butter egg onion carrot tomato potato "
         "tea coffee milk juice").split()
THINGS = ("book pen lamp chair table bag box cup plate bottle phone laptop camera clock key ring ball bike car boat tent coat "
          "shirt hat shoe sock mirror candle basket hammer").split()
JOBS = ("baker doctor teacher pilot nurse farmer painter lawyer chef driver singer writer engineer plumber gardener "
        "carpenter").split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LANGUAGES = "German French Spanish Italian Dutch Polish Swedish Norwegian Danish Greek Turkish Japanese Korean".split()
CURRENCIES = "EUR USD GBP CHF JPY SEK NOK PLN".split()
ROOMS = "kitchen bedroom bathroom office garage garden hall cellar attic library".split()
SKIES = "sunny cloudy rainy foggy windy snowy clear stormy".split()
VERBS = ("read write open close find count sort merge split join print parse build run test check load store send update "
         "create delete move copy list scan lock fetch publish cancel archive rename export import").split()
NOUNS = ("file line word table number value index tree graph queue stack cache page server request answer token record user "
         "order invoice ticket report message account product project task job event image log key path group note "
         "contract device sensor shipment booking payment license").split()
ADJECTIVES = ("small large empty first last next old quiet bright dark cold warm heavy light simple strange green narrow "
              "wide early late lonely happy").split()
PLACES = "river hill forest market bridge harbour station school tower lake valley village island road field".split()
EXTENSIONS = "txt csv json log py md html yaml toml sh cfg xml".split()
DIRECTORIES = "src docs data tests build logs config scripts images backup assets lib bin notes reports".split()

COMMON = (
    "account action advice agent album answer archive area arrow artist autumn award bakery bank barrel basement battery beach "
    "bench bicycle blanket border bottle branch breakfast brush bucket budget building button cabin cable calendar campaign canal "
    "candle captain carpet castle ceiling center chain chapter charge cheese chicken choice church circle citizen class client "
    "climate coffee collar column comet company concert copper corner cottage counter couple course cousin cover credit crystal "
    "culture current curtain customer cycle danger debate deck delivery desert design desk diamond dinner direction dish district "
    "document dollar dragon drawer dream drink driver dust editor effort elbow engine entrance envelope evening event exam exit "
    "expert fabric factory family farmer feather fence fever figure film finger fire flag flavor floor flower folder forest fork "
    "fountain frame freedom friend fruit furniture future gallery game garage garlic gate gift glass glove grain grass ground group "
    "guest guide guitar hair hallway harvest helmet history holiday honey hospital hotel hour idea income insect island jacket "
    "jewel journey judge jungle kettle kingdom kitchen knee ladder lake lamp language laptop leader leather lecture legend lesson "
    "letter level library lift limit liquid lunch machine magazine magnet mailbox manager map marble market meadow meal medal "
    "meeting member memory menu metal meter middle mineral minute mirror mission moment monitor morning motor mountain museum music "
    "napkin nature needle nephew network newspaper notice novel ocean office opera option orbit orchard order origin oven owner "
    "package paint palace panel paper parade parcel parent parking party passage pattern payment peace pencil pepper period person "
    "picture pillow pipe planet plant plastic platform player pocket poem policy pool portrait position post pound powder power "
    "present price printer prize process product profit program pupil puzzle quarter queen radio railway rain record recipe region "
    "rent repair reply rescue reserve result reward rhythm rice rocket roof rope route rubber sail salary sample sand sandwich "
    "sauce scale scene science screen season seat secret seed shadow shape shelf shell shield signal silence silk sister sketch "
    "slice smoke snow soap soil soldier spice spoon spring square stable staff stage stairs stamp station steam steel stone store "
    "storm story stove street student studio subject sugar suit summer supper surface swan switch symbol system tail talent target "
    "teacher temple theater thread thunder tide timber title tongue tool topic towel traffic trail train treasure tree trip trophy "
    "truck tunnel umbrella uncle union valley value vehicle velvet victory village vision visit voice volume wagon wall wallet water "
    "wave weapon weather wedding weekend wheel whistle window wing winter wire wisdom wood wool worker workshop world yard year").split()
_ROOTS = "act form port play move light turn work land mark count press place sign view tell read build hold break clean start".split()
_BEFORE, _AFTER = ("re", "un", "over", "out", "pre", "mis", ""), ("ing", "er", "ed", "able", "ment", "s", "less", "ful", "")

_ONSETS = "b br c ch d dr f fl g gr h j k kr l m n p pl pr qu r s sh sk sl st t th tr v w x y z".split() + [""] * 3
_VOWELS = "a e i o u a e i o u ai ea ee ia io oa ou".split()
_CODAS = ["", "", "", ""] + "l n r s t m k d x nd rt st lk ll rn ss ck".split()


def syllables(source, least=2, most=2):
    """Two syllables, now and then one more: brelt, tavio, skolmar."""
    count = source.integer(least, most) + source.chance(0.2)
    inner = "".join(source.pick(_ONSETS) + source.pick(_VOWELS) + (source.pick(_CODAS) if source.chance(0.3) else "")
                    for _ in range(count - 1))
    return inner + source.pick(_ONSETS) + source.pick(_VOWELS) + source.pick(_CODAS)


def made_word(source):
    """Lower case, never a word of training and of the held-out set at once."""
    return source.unseen("word", lambda: syllables(source))


def english(source):
    """A real or nearly real English word."""
    if source.chance(0.7):
        return source.pick(COMMON)
    return source.pick(_BEFORE) + source.pick(_ROOTS) + source.pick(_AFTER)


def term(source):
    """One lower-case word of any kind."""
    return made_word(source) if source.held_out or source.chance(0.5) else english(source)


def first_name(source):
    if not source.held_out and source.chance(0.5):
        return source.pick(FIRST_NAMES)
    return source.unseen("name", lambda: syllables(source).capitalize())


def full_name(source):
    return first_name(source) + " " + source.unseen("name", lambda: syllables(source).capitalize())


def city(source):
    if not source.held_out and source.chance(0.5):
        return source.pick(CITIES)
    if source.chance(0.1):
        return source.pick(("New ", "San ", "Port ", "Bad ", "Old ")) + made_word(source).capitalize()
    return source.unseen("city", lambda: syllables(source).capitalize())


RESERVED = set(keyword.kwlist) | set("abs min max sum len sorted set print range int str list any all".split())


def identifier(source):
    """A lower-case name as in code: total, parse_line, zorva_2."""
    def make():
        kind = source.integer(0, 4)
        if kind == 0:
            return source.pick(VERBS) + "_" + source.pick(NOUNS)
        if kind == 1:
            return syllables(source, 1, 2)
        if kind == 2:
            return syllables(source, 1, 2) + "_" + source.pick(NOUNS)
        if kind == 3:
            return source.pick(VERBS) + "_" + syllables(source, 1, 2)
        return source.pick(NOUNS) + "_" + source.pick(NOUNS)
    word = source.unseen("identifier", make)
    return word if word not in RESERVED else word + "_x"


def code_number(source, least=3, most=5):
    """Digits without a leading zero, as text."""
    digits = source.integer(least, most)
    return source.unseen("code", lambda: str(source.integer(10 ** (digits - 1), 10 ** digits - 1)))


def phone(source):
    return source.unseen("code", lambda: f"{source.integer(100, 999)}-{source.integer(1000, 9999)}")


def code_mixed(source):
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    return source.unseen("code", lambda: "".join(source.pick(letters) for _ in range(source.integer(1, 3)))
                         + source.pick(("-", "", "-")) + str(source.integer(10, 9999)))


def file_name(source, extension=None):
    stem = source.pick(NOUNS + DIRECTORIES) if source.chance(0.4) else identifier(source)
    return source.unseen("file", lambda: source.pick((stem, stem + "_" + source.pick(NOUNS), stem + str(source.integer(1, 99))))
                         + "." + (extension or source.pick(EXTENSIONS))) if source.chance(0.7) else (
        made_word(source) + "." + (extension or source.pick(EXTENSIONS)))


def directory(source):
    return source.pick(DIRECTORIES) if source.chance(0.5) else made_word(source)


def path(source):
    name = file_name(source)
    if source.chance(0.5):
        return name
    return source.pick(("", "/", "")) + "/".join(directory(source) for _ in range(source.integer(1, 2))) + "/" + name


def email(source):
    return (first_name(source).lower() + source.pick(("", str(source.integer(1, 99)))) + "@"
            + (made_word(source) if source.chance(0.6) else "example") + source.pick((".com", ".org", ".net")))


def clock(source):
    return f"{source.integer(0, 23)}:{source.pick(('00', '15', '30', '45', '10', '20', '05'))}"


def phrase(source, least=2, most=4):
    """A few words that mean little: 'green river note'."""
    pools = (ADJECTIVES, THINGS, NOUNS, PLACES, ANIMALS, FOODS, COMMON, COMMON)
    words = [source.pick(source.pick(pools)) if source.chance(0.8) else made_word(source)
             for _ in range(source.integer(least, most))]
    text = " ".join(words)
    return text.capitalize() if source.chance(0.1) else text


def sentence(source):
    return source.spin(
        source.pick((
            "The {a} {n} [stood|was|waited|slept] [near|behind|beside|by] the {b} {p}.",
            "{name} [saw|found|lost|bought|sold] a {a} {t} in {city}.",
            "On {day} the {n} [went|walked|ran] to the {p} [again|alone|with {name}].",
            "There [is|was] a {a} {t} on the {b} {t2}.", "[My|Our|His|Her] {c} is {a} [today|again|now].",
            "[I|We|They] [saw|heard|had|liked] the {c} [of|from] {name}.", "[A|The] {c} [and|or] the {t} [will|can|must] [stay|go|wait].",
            "{name} [is|was] [at|in] the {c} [with|without] [a|the] {t}.", "[It is|It was] [late|early|cold|{day}] [today|here|now].",
            "{name} likes {f} and {f2}, but not {f3}.", "[I am|We are] [tired|busy|happy|in a hurry] [today|now|because of the {c}].")),
        a=source.pick(ADJECTIVES), b=source.pick(ADJECTIVES), n=source.pick(ANIMALS), p=source.pick(PLACES), c=term(source),
        t=source.pick(THINGS), t2=source.pick(THINGS), name=first_name(source), city=city(source),
        day=source.pick(WEEKDAYS), f=source.pick(FOODS), f2=source.pick(FOODS), f3=source.pick(FOODS))


def listing(words, last="and"):
    """a, b and c"""
    words = [str(w) for w in words]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} " + words[-1]


def article(word):
    return ("an " if word[0] in "aeiou" else "a ") + word
