"""Tools a request can be for: a table of well-known ones, and made-up ones without end.

A `Use` is one call of one tool: its declaration, its arguments, how a user asks for it, what it returns and how the
answer says that. tool_use.py makes exchanges of one, several or chained uses.
"""

import dataclasses
import json

import words


@dataclasses.dataclass
class Use:
    tool: dict         # OpenAI declaration
    arguments: dict
    asked: str         # a whole request: "What is the weather in Oslo?"
    result: dict       # field -> value, what the tool would return
    said: str          # the answer made of it
    again: str = ""    # the request in short, after one of the same tool: "And in Oslo?"
    working: str = ""  # how computed arguments come about
    facts: tuple = ()  # the values the answer must hold

    @property
    def name(self):
        return self.tool["function"]["name"]


def declare(source, name, description, properties, required=None):
    """properties: {name: JSON type or a whole property}"""
    described = source.chance(0.25)

    def one(key, kind):
        value = dict(kind) if isinstance(kind, dict) else {"type": kind}
        if described and "description" not in value:
            value["description"] = "The " + key.replace("_", " ")
        return value
    parameters = {"type": "object", "properties": {k: one(k, t) for k, t in properties.items()}}
    if source.chance(0.8):
        parameters["required"] = list(properties) if required is None else required
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def temperature(source):
    return source.integer(-15, 38)


# name: (names, descriptions, {slot: (parameter names, JSON type, maker)}, requests, short requests,
#        {result field: maker}, answer)
# Requests name slots in braces; the answer names slots and result fields.
TABLE = {
    "weather": ("get_weather weather current_weather get_current_weather", "[Current weather|Weather|The weather now] in a city",
                {"city": ("city location place", "string", words.city)},
                "[How warm|How cold|How hot] is it [|now |outside ]in {city}?|[I am flying|I am going|We travel|I go|I move] to {city}[. What is the weather there?|. Is it [cold|warm|wet] there?|, how is the weather?|. Do I need a [coat|hat|jacket]?]|[Check|Look up|Get] the weather [in|for|of] {city}[.|]|[Does it rain|Is it snowing|Is it windy|Is the sun out] in {city}?|{city} weather[?|]|"
                "[What is|What's|How is|Tell me|Show me] the weather[ like|] in {city}[| now| today| right now]?|"
                "[Is it [cold|warm|raining|sunny] in {city}[ now| today|]?|Weather in {city}[, please|]|I want the weather for {city}.]",
                "[And|What about|And how is it] in {city}?",
                {"temperature": temperature, "sky": lambda s: s.pick(words.SKIES)},
                "In {city} it is {temperature} degrees and {sky}."),
    "forecast": ("get_forecast forecast weather_forecast", "Weather forecast for a city and day",
                 {"city": ("city location", "string", words.city),
                  "day": ("day date", "string", lambda s: s.pick(words.WEEKDAYS + ["today", "tomorrow"]))},
                 "Will it [rain|snow|be warm|be cold] in {city} [on |]{day}?|[I visit|I am in|We go to] {city} [on |]{day}. [What will the weather be?|Will it rain?]|[Forecast|Weather] [for|in] {city}[, | on ]{day}[.|]|[On |]{day} in {city}: [what is the forecast|how will the weather be]?|"
                "[What will the weather be|How will the weather be|What is the forecast|Give me the forecast|I need the forecast] "
                 "[in|for] {city} [on|for|] {day}?", "[And|What about] {city} [on|for] {day}?",
                 {"high": temperature, "sky": lambda s: s.pick(words.SKIES)}, "{city}, {day}: {sky}, up to {high} degrees."),
    "time": ("get_time current_time get_local_time clock", "[Local time|The time now|Current time] in a city",
             {"city": ("city location timezone", "string", words.city)},
             "[How late is it|What hour is it|What does the clock say] in {city}?|[Time|Local time] in {city}[?|, please.|]|[I want to call|I have a friend in|My friend is in] {city}. What time is it there?|[Check|Look up] the [local |]time [in|of|for] {city}.|Is it [night|morning|late|early] in {city}[ now|]?|"
                "[What time is it|What's the time|Tell me the time|What is the time|Give me the local time] in {city}[| now]?",
             "[And|What about] in {city}?", {"time": words.clock}, "In {city} it is {time}."),
    "email": ("send_email email send_mail", "Send an email",
              {"to": ("to recipient address", "string", words.email), "subject": ("subject title", "string", words.phrase)},
              "[Mail|Email|Write to] {to} [about|regarding|with the subject] {subject}.|[I want|I need] to [write|mail|send an email] to {to} [about|with subject] {subject}.|[Compose|Start|Make] [an email|a mail] [to|for] {to}[, subject:|, subject|, title:| called] {subject}.|[Subject|About]: {subject}. [Send it|Mail it] to {to}.|"
                "[Send|Write|Please send] an email to {to} [with the subject|with subject|about] [{subject}|\"{subject}\"].",
              "[Also one|Another] to {to} about {subject}.",
              {"status": lambda s: s.pick(("sent", "queued"))}, "The email to {to} is {status}."),
    "message": ("send_message message text_contact send_text", "Send a message to a person",
                {"to": ("to name recipient person", "string", words.first_name),
                 "text": ("text message body", "string", words.phrase)},
                "[Let {to} know|Say to {to}|Write to {to}]: {text}|[I want to|Please|Could you] [tell|message|text] {to}: {text}.|[Message|Text] for {to}: {text}|"
                "[Send|Write] {to} the message [{text}|\"{text}\"].|[Tell|Text|Message] {to}: {text}", "[And|Also] tell {to}: {text}",
                {"status": lambda s: s.pick(("sent", "delivered"))}, "The message to {to} is {status}."),
    "read": ("read_file open_file cat_file get_file", "[Read a file|The content of a file|Read the content of a file]",
             {"path": ("path file file_path filename", "string", words.path)},
             "[Have a look at|Look at|Look into|Check|Get|Load|Fetch|cat|View] [the file |]{path}[.||, please.| for me.| and tell me about it.]|[What does|What do we have in] {path}[ say| hold| contain|]?|[Can you|Could you|Please] [read|open|show] {path}[?|.]|[I want to|Let me] see {path}[.|]|The [content|text] of {path}[, please.|?]|"
                "[Read|Open|Show me|Print|Show|What is in|What's in|Display] [the file |]{path}[.||, please.]", "[And|Now] {path}.",
             {"content": words.phrase}, "{path} says: {content}"),
    "write": ("write_file save_file create_file", "Write text to a file",
              {"path": ("path file file_path filename", "string", words.path),
               "content": ("content text data", "string", words.phrase)},
              "[Put|Store] [the text |]{content} [in|into] {path}[.|]|[Fill|Overwrite] {path} with {content}[.|]|[A new file|New file] {path}[: | with ]{content}|"
                "[Write|Save] [{content}|\"{content}\"] [to|into] [the file |]{path}.|[Create|Make] [the file |]{path} with [the text |the "
              "content |]{content}.", "[And|Also] {content} to {path}.",
              {"bytes": lambda s: s.integer(5, 99)}, "{path} is written, {bytes} bytes."),
    "list": ("list_files ls list_directory list_dir", "List the files of a directory",
             {"path": ("path directory dir folder", "string", words.directory)},
             "[Look into|Look at|Show me|Check] the [directory|folder] {path}[.|]|[Files|Everything] in {path}[?|, please.]|[ls|list] {path}[.|]|[What do we have|What is there|What can I find] in [the folder |]{path}?|"
                "[List|Show|Show me|What are] the files [in|of] {path}[.|]|[What is|Which files are] in [the directory |]{path}?",
             "[And|What about] in {path}?",
             {"files": lambda s: [words.file_name(s) for _ in range(s.integer(1, 3))]}, "{path} holds {files}."),
    "grep": ("search_code grep search_files find_in_files", "Search files for a word",
             {"query": ("query pattern word", "string", words.identifier),
              "path": ("path directory dir", "string", words.directory)},
             "[Is|Does] {query} [used |appear |]in {path}?|[Which file|Which files|What] in {path} [has|have|holds|use|uses] {query}?|[I am looking|I look|We search] for {query} in {path}[.|]|[Show me|Locate] {query} in {path}[.|]|[In|Inside] {path}, [find|look for|search for] {query}[.|]|"
                "[Search|Look|Grep] for {query} in {path}.|[Find|Where is] {query} in {path}[.|?]", "[And|Also] {query} in {path}.",
             {"file": words.file_name, "line": lambda s: s.integer(1, 300)}, "{query} is in {file}, line {line}."),
    "shell": ("run_command bash shell run_shell execute", "Run a shell command",
              {"command": ("command cmd", "string", lambda s: s.spin(
                  "[ls {d}|cat {f}|wc -l {f}|make {w}|git {v}|python3 {w}.py|rm {f}|mkdir {d}]", d=words.directory(s), f=words.file_name(s),
                  w=words.made_word(s), v=s.pick(("status", "log", "diff", "pull", "push"))))},
              "[In the terminal|In the shell|On the command line][,|:] [run |do |execute |]`{command}`[.|]|[I want to|Could you|Can you|Let's|Try to] run `{command}`[.|?|]|`{command}`[ please|]|[Do|Type|Start|Try] `{command}`[.|]|"
                "[Run|Execute|Please run] [the command |][`{command}`|{command}|`{command}`]", "[Then|Now] `{command}`",
              {"exit_code": lambda s: s.integer(0, 2)}, "The command ended with {exit_code}."),
    "web": ("web_search search search_web google", "Search the web",
            {"query": ("query q text", "string", words.phrase)},
            "[Find out|Look up|Find] [something |more |]about {query}[ on the web| online|].|[What does the web say about|Is there anything on the web about|What is new about] {query}?|[Do a|Run a] [web |]search [for|on] {query}[.|]|"
                "[Search|Look] [the web |online |]for {query}.|[Google|Search] {query}[.|]", "[And|Also] for {query}.",
            {"title": words.phrase}, "The first hit is: {title}"),
    "translate": ("translate translate_text translation", "Translate text into a language",
                  {"text": ("text phrase input", "string", lambda s: words.phrase(s, 1, 3)),
                   "language": ("language target target_language to", "string", lambda s: s.pick(words.LANGUAGES))},
                  "{language} for {text}[?|, please.]|[I want|I need|Give me] {text} in {language}[.|]|[Put|Turn|Bring] {text} into {language}[.|]|[Say|Write] {text} in {language}[.|]|"
                "[Translate|Please translate] [{text}|\"{text}\"] [to|into] {language}.|[How do you say|What is] [\"{text}\"|{text}] in "
                  "{language}?", "[And|Also] {text} into {language}.",
                  {"translation": lambda s: words.made_word(s) + " " + words.made_word(s)}, "In {language}: {translation}"),
    "convert": ("convert_currency exchange currency convert_money", "Convert money between currencies",
                {"amount": ("amount value", "integer", lambda s: s.integer(1, 999)),
                 "source": ("from from_currency source", "string", lambda s: s.pick(words.CURRENCIES[:4])),
                 "target": ("to to_currency target", "string", lambda s: s.pick(words.CURRENCIES[4:]))},
                "[I have|I got|Take] {amount} {source}. [How much is that|What is that|What do I get] in {target}?|{amount} {source} [in|to|into] {target}[?|, please.|]|[Turn|Make|Swap] {amount} {source} into {target}[.|]|"
                "[Convert|Change|Exchange] {amount} {source} [to|into] {target}.|[How much is|What is|What are] {amount} {source} in {target}?",
                "[And|What about] {amount} {source} in {target}?", {"result": lambda s: s.integer(1, 2000)},
                "{amount} {source} are {result} {target}."),
    "calculate": ("calculator calculate evaluate math", "Evaluate an arithmetic expression",
                  {"expression": ("expression formula input", "string", lambda s: s.spin(
                      "{a} {o} {b}[| {o2} {c}]", a=s.integer(1, 9999), b=s.integer(1, 9999), c=s.integer(1, 99), o=s.pick("+-*/"),
                      o2=s.pick("+-*")))},
                  "[Ask the calculator|With the calculator|Let the tool compute]: {expression}[.|?|]|[I need|Give me|Find] the [value|result] of {expression}[.|]|{expression}[ =| = ?|?]|[How much is|What's] {expression}?|"
                "[Use the calculator for|Use the calculator: what is|Calculate|Evaluate|Compute|What is] {expression}[.|?|]",
                  "[And|Now] {expression}.", {"value": lambda s: s.integer(1, 9999)}, "The result is {value}."),
    "event": ("create_event add_event schedule_meeting add_to_calendar", "Add an event to the calendar",
              {"title": ("title name event", "string", words.phrase), "day": ("day date", "string", lambda s: s.pick(words.WEEKDAYS)),
               "time": ("time start start_time", "string", words.clock)},
              "[I have|We have|There is] {title} on {day} at {time}[. Add it.|. Put it in the calendar.|, note it in my calendar.]|[On |]{day} at {time}: {title}. [Add it|Schedule it|Put it in my calendar].|[Plan|Enter|Book|Note] {title} [for|on] {day} at {time}[.|]|[New|Calendar] [event|entry]: {title}, {day}, {time}|"
                "[Add|Put|Create|Schedule] [the event |a meeting called |]{title} on {day} at {time}[ in my calendar|].",
              "[And|Also] {title} on {day} at {time}.", {"event_id": lambda s: int(words.code_number(s))},
              "{title} is on {day} at {time}, event {event_id}."),
    "alarm": ("set_alarm alarm wake_up", "Set an alarm", {"time": ("time at", "string", words.clock)},
              "[I must|I have to|I want to] [get up|wake up|be awake] at {time}[.|. Wake me.|. Set an alarm.]|[Ring|Let it ring|Make a noise] at {time}[.|]|[An|New] alarm [for|at] {time}[, please.|]|"
                "[Set an alarm for|Wake me at|Wake me up at|Alarm at|Set the alarm to] {time}[.|]", "[And|Also] at {time}.",
              {"status": lambda s: s.pick(("set", "on"))}, "The alarm at {time} is {status}."),
    "stock": ("get_stock_price stock_price quote get_quote", "Price of a stock",
              {"symbol": ("symbol ticker stock", "string", lambda s: words.made_word(s)[:4].upper())},
              "[How much is|What does] [a share of |one share of |]{symbol}[ cost| worth|][ now| today|]?|[Check|Look up|Tell me|Quote] [the price of |]{symbol}[.|]|[Should I|Can I] buy {symbol}? [What is the price?|What does it cost?]|{symbol} [stock|share|price][?|]|"
                "[What is|What's|Get|Show me] the [stock |]price of {symbol}[?|]|[How is {symbol} doing?|Price of {symbol}, please.]",
              "[And|What about] {symbol}?", {"price": lambda s: s.integer(1, 999)}, "{symbol} is at {price}."),
    "order": ("order_product buy add_to_cart place_order", "Order a product",
              {"product": ("product item article", "string", words.term),
               "quantity": ("quantity count amount number", "integer", lambda s: s.integer(2, 60))},
              "[I need|I want|We need|I'd like|Send me] {quantity} [pieces of |times |]{product}[. Order them.|, please order.|, please.]|[Put|Place] [an order for |]{quantity} {product}[ in my cart|].|[Purchase|Get] {quantity} [of the |of |]{product}[.|]|"
                "[Order|Buy|Get me|Add|Please order] {quantity} [pieces of |units of |]{product}[ for me| to my cart|].",
              "[And|Also] {quantity} {product}.", {"total": lambda s: s.integer(5, 999)}, "{quantity} {product} cost {total} in total."),
    "status": ("get_order order_status get_order_status track_order", "Status of an order",
               {"order": ("order_id id order_number", "integer", lambda s: int(words.code_number(s)))},
               "[Has|Is] [my |]order {order} [arrived|shipped|on its way|there]?|[I wait for|I am waiting for] order {order}. [Where is it?|What is its status?]|[Look up|Look at|Find] [the |my |]order {order}[.|]|[Order|Status of order|Order number] {order}[?|, please.|]|[When|How] does order {order} [come|arrive]?|"
                "[What is|What's|Check|Show|Tell me] the status of [order|my order|order number] {order}[?|.]|Where is [my |]order {order}?",
               "[And|What about] {order}?", {"status": lambda s: s.pick(("shipped", "packed", "paid", "lost", "delivered")),
                                             "day": lambda s: s.pick(words.WEEKDAYS)},
               "Order {order} is {status}, due {day}."),
    "user": ("get_user find_user lookup_user user_info", "Look up a user by name",
             {"name": ("name user username", "string", words.first_name)},
             "[What do we know about|Do you know|Tell me about|Give me the data of|I need the data of] [the user |]{name}[.|?]|[Search for|Check|Fetch|Open] [the |]user {name}[.|]|User {name}[?|, please.|]|[How old is|What is the email of] {name}?|"
                "[Look up|Find|Who is|Get|Show me] [the user |user |]{name}[.|]", "[And|What about] {name}?",
             {"email": words.email, "age": lambda s: s.integer(18, 90)}, "{name} is {age} years old and has the email {email}."),
    "hotel": ("book_hotel hotel reserve_hotel", "Book a hotel",
              {"city": ("city location place", "string", words.city), "nights": ("nights days", "integer", lambda s: s.integer(2, 20))},
              "[I stay|We stay|I will be|I am] in {city} for {nights} nights[.|, book a hotel.|. Find a room.]|{nights} nights in {city}[, please.|. Book it.|, a hotel please.]|[Hotel|A room] in {city}[, | for ]{nights} nights[.|]|[Get|Reserve] me a room in {city} for {nights} nights[.|]|"
                "[Book|Reserve|Find|I need] a hotel in {city} for {nights} nights.", "[And|Also] in {city} for {nights} nights.",
              {"hotel": lambda s: words.made_word(s).capitalize(), "price": lambda s: s.integer(30, 400)},
              "Hotel {hotel} in {city} costs {price}."),
    "flight": ("find_flight search_flights flight book_flight", "Find a flight",
               {"origin": ("origin from source", "string", words.city), "destination": ("destination to target", "string", words.city)},
               "[I want to|I have to|We want to|I must] [fly|go|travel] from {origin} to {destination}[.|. Find a flight.]|[Flights|A flight|Flight|Plane] from {origin} to {destination}[, please.|?|]|[How do I|How can I] get from {origin} to {destination}?|[From|Flying from] {origin} to {destination}[, which flight is there?|: find a flight.]|"
                "[Find|Book|Show me|I need|Search] a flight from {origin} to {destination}.",
               "[And|Also] from {origin} to {destination}.", {"flight": words.code_mixed, "time": words.clock},
               "Flight {flight} leaves {origin} at {time}."),
    "distance": ("get_distance distance route_length", "Distance between two cities",
                 {"origin": ("origin from start", "string", words.city), "destination": ("destination to end", "string", words.city)},
                 "[How many km|How many kilometers|How long is it] [is it |]from {origin} to {destination}?|[How far is|How far away is] {destination} from {origin}?|[The |]distance [between|from] {origin} [and|to] {destination}[?|, please.|]|[I drive|I walk|We drive] from {origin} to {destination}. How far is [it|that]?|"
                "[How far is it|What is the distance|Distance] from {origin} to {destination}?",
                 "[And|What about] from {origin} to {destination}?", {"km": lambda s: s.integer(20, 9000)},
                 "From {origin} to {destination} it is {km} km."),
    "song": ("play_song play play_music music", "Play a song", {"title": ("title song track", "string", words.phrase)},
             "[I love|I want|Let me hear|Let's hear|Start|Turn on] [the song |]{title}[.|, play it.]|[Can you|Could you] play {title}[?|, please?]|[Music|Song]: {title}|{title}, play [it|that][ please|][.|]|"
                "[Play|Please play|I want to hear|Put on] [the song |]{title}.", "[Then|Now] {title}.",
             {"artist": words.first_name}, "Now playing {title} by {artist}."),
    "heating": ("set_temperature heating set_heating thermostat", "Set the temperature of a room",
                {"room": ("room place", "string", lambda s: s.pick(words.ROOMS)),
                 "degrees": ("degrees temperature value", "integer", lambda s: s.integer(10, 28))},
                "It is too [cold|warm] in the {room}, [set|make] it [to |]{degrees}[ degrees|][.|]|[The |]{room}: {degrees} degrees[, please.|]|[Change|Bring] the [temperature of the |]{room} to {degrees}[ degrees|][.|]|[Can you|Please] [heat|set] the {room} to {degrees}[?|.]|"
                "[Set|Heat|Turn] the {room} to {degrees}[ degrees|].|[Make it|I want] {degrees} degrees in the {room}.",
                "[And|Also] the {room} to {degrees}.", {"now": lambda s: s.integer(5, 30)}, "The {room} is at {now} degrees now."),
    "ticket": ("create_ticket open_ticket new_ticket file_issue", "Open a ticket",
               {"title": ("title summary subject", "string", words.phrase),
                "priority": ("priority urgency", "string", lambda s: s.pick(("low", "high", "normal", "urgent")))},
               "[I want to|We must|Please] report [a problem|something]: {title}. [Priority|It is|Urgency:] {priority}[.|]|[New|A new] ticket[:|,] {title}[, priority |, ]{priority}[.|]|[Ticket|Problem]: {title}. {priority} priority[.|]|[Make|Add] a ticket [about|for] {title} with {priority} priority[.|]|"
                "[Open|Create|File] a {priority} [priority |]ticket[: | called | about ]{title}.",
               "[And|Also] a {priority} one: {title}.", {"ticket_id": lambda s: int(words.code_number(s))}, "The ticket is {ticket_id}."),
    "delete": ("delete_file remove_file rm", "Delete a file", {"path": ("path file file_path filename", "string", words.path)},
               "[I no longer need|We do not need|I don't need] {path}[. Delete it.|. Remove it.|, delete it.]|[Throw away|Erase|Drop|Kill|Clean up] [the file |]{path}[.|]|[Can you|Could you|Please] [delete|remove] {path}[?|.]|{path} [must|can|should] go[.|]|"
                "[Delete|Remove|Please delete|Get rid of] [the file |]{path}.", "[And|Also] {path}.",
               {"status": lambda s: s.pick(("deleted", "gone"))}, "{path} is {status}."),
    "define": ("define dictionary get_definition lookup_word", "Meaning of a word", {"word": ("word term", "string", words.term)},
               "[What is|What's] [the meaning of |meant by |]{word}?|[I do not know|I don't know|Explain] the word {word}[.|. Look it up.]|[Meaning of|Definition of] {word}[?|, please.|]|{word}: [what does that mean|what is that]?|"
                "[What does|What does the word] {word} mean?|[Define|Look up] [the word |]{word}.", "[And|What about] {word}?",
               {"meaning": words.phrase}, "{word} means: {meaning}"),
    "remind": ("remind_me add_reminder set_reminder reminder", "Set a reminder",
               {"text": ("text what task", "string", words.phrase), "time": ("time at when", "string", words.clock)},
               "[Do not let me|Don't let me] forget {text} at {time}[.|]|[I must|I have to|I want to] [think of|remember] {text} at {time}[. Remind me.|, remind me.]|[Reminder|New reminder][: | for ]{text}[, at | at ]{time}[.|]|{time}: {text}. Remind me[.|, please.]|"
                "[Remind me at {time}: {text}|Remind me of {text} at {time}|At {time} remind me of {text}].",
               "[And|Also] of {text} at {time}.", {"status": lambda s: s.pick(("set", "saved"))},
               "The reminder at {time} is {status}."),
    "price": ("get_price price_of lookup_price price", "Price of a product",
              {"product": ("product item name", "string", words.term)},
              "[Price|Cost] of [a |the |]{product}[?|, please.|]|[Check|Look up|Tell me] [the price of|what we pay for] [a |the |]{product}[.|]|Is {product} expensive?|[I want to buy|I need|I look for] [a |]{product}. [What does it cost?|How much is it?]|"
                "[What does|How much does] [a|the] {product} cost?|[What is|Get] the price of [a |the |]{product}[?|]",
              "[And|What about] {product}?", {"price": lambda s: s.integer(1, 500)}, "The {product} costs {price}."),
    "package": ("track_package track tracking find_package", "Where a package is",
                {"code": ("code tracking_number number", "string", words.code_mixed)},
                "[Has|When does] [the |my |]package {code} [arrived|arrive|come]?|[Look up|Check|Follow|Locate] [the |my |]package {code}[.|]|[Package|Parcel|Tracking number] {code}[: where is it?|?|, please.]|[I wait for|I am waiting for] package {code}[.|. Where is it?]|"
                "[Track|Where is|Find] [the |my |]package {code}[.|?]", "[And|What about] {code}?",
                {"city": words.city, "day": lambda s: s.pick(words.WEEKDAYS)}, "Package {code} is in {city} and arrives on {day}."),
    "light": ("set_light light turn_light switch_light", "Switch the light of a room",
              {"room": ("room place", "string", lambda s: s.pick(words.ROOMS)),
               "state": ("state value", "string", lambda s: s.pick(("on", "off")))},
              "It is [dark|bright|late] in the {room}[. |, ][turn|switch] the light {state}[.|]|[The |]light in the {room} {state}[, please.|]|[Light|Lights] {state} in the {room}[.|]|[Can you|Please] [turn|switch] {state} the light in the {room}[?|.]|"
                "[Turn|Switch|Please turn] {state} the light in the {room}.|[Turn|Switch] the {room} light {state}.",
              "[And|Also] {state} in the {room}.", {"status": lambda s: s.pick(("done", "ok"))},
              "The light in the {room} is {state}: {status}."),
}


def shown(value):
    return words.listing(value) if isinstance(value, list) else str(value)


def well_known(source, entry=None, declared=None):
    """A use of TABLE[entry]; `declared` is an earlier use of the same tool whose declaration is kept."""
    entry = entry or source.pick(list(TABLE))
    names, description, slots, requests, shorter, fields, said = TABLE[entry]
    if declared:
        tool = declared.tool
        parameters = list(tool["function"]["parameters"]["properties"])
    else:
        parameters = [source.pick(slot[0].split()) for slot in slots.values()]
        tool = declare(source, source.pick(names.split()), source.spin(description),
                       {p: slot[1] for p, slot in zip(parameters, slots.values())})
    values = {slot: made[2](source) for slot, made in slots.items()}
    if len(set(map(str, values.values()))) < len(values):
        return well_known(source, entry, declared)
    result = {field: make(source) for field, make in fields.items()}
    answer = said
    for key, value in {**values, **result}.items():
        answer = answer.replace("{" + key + "}", shown(value))
    facts = [v for value in result.values() for v in (value if isinstance(value, list) else [value])]
    return Use(tool, dict(zip(parameters, values.values())), source.spin("[" + requests + "]", **values), result, answer,
               source.spin(shorter, **values), facts=tuple(facts))


PARAMETERS = {  # of made-up tools: name -> (JSON type, maker)
    "city": ("string", words.city), "name": ("string", words.first_name), "customer": ("string", words.first_name),
    "count": ("integer", lambda s: s.integer(1, 99)), "limit": ("integer", lambda s: s.integer(1, 99)),
    "id": ("integer", lambda s: int(words.code_number(s))), "order_id": ("integer", lambda s: int(words.code_number(s))),
    "code": ("string", words.code_mixed), "path": ("string", words.path), "file": ("string", words.file_name),
    "day": ("string", lambda s: s.pick(words.WEEKDAYS)), "color": ("string", lambda s: s.pick(words.COLORS)),
    "word": ("string", words.term), "title": ("string", words.phrase), "item": ("string", words.term), "article": ("string", words.term),
    "door": ("string", lambda s: s.pick(words.ROOMS)), "player": ("string", words.first_name), "points": ("integer", lambda s: s.integer(1, 999)),
    "text": ("string", words.phrase), "state": ("string", lambda s: s.pick(("on", "off", "open", "closed"))), "email": ("string", words.email),
    "amount": ("integer", lambda s: s.integer(1, 999)), "room": ("string", lambda s: s.pick(words.ROOMS)),
    "month": ("string", lambda s: s.pick(words.MONTHS)), "branch": ("string", words.identifier),
    "product": ("string", lambda s: s.pick(words.THINGS)), "key": ("string", words.identifier),
    "size": ("integer", lambda s: s.integer(1, 60)), "team": ("string", words.made_word), "time": ("string", words.clock),
    "owner": ("string", words.first_name), "host": ("string", words.made_word), "port": ("integer", lambda s: s.integer(80, 9999)),
}


def named_values(source, values):
    """city Oslo, the count 4 and day = Monday"""
    said = {p: p.replace("_", " ") for p in values}
    return words.listing([source.pick((f"{said[p]} {v}", f"{said[p]} {v}", f"{said[p]} = {v}", f"the {said[p]} {v}", f"{said[p]} is {v}"))
                          for p, v in values.items()])


def made_up_request(source, name, verb, noun, values):
    """By verb and noun, by the tool's name, or by the bare value of an only parameter."""
    listed = named_values(source, values)
    if len(values) == 1 and source.chance(0.4):
        value, parameter = str(next(iter(values.values()))), next(iter(values)).replace("_", " ")
        return source.spin(source.pick((
            "[[Please |Could you |Can you |Would you |]{v} the {n}|{V} the {n}|I want to {v} the {n}|Let's {v} the {n}] [{x}|for {x}|of {x}|with {x}|at {x}][.|?|]",
            "[Do we have|Is there|Are there] [a|any|some] {n} [for|of|with|at] {x}[?| still?| yet?]", "{x}: {v} the {n}[.|, please.]",
            "[The|This|Our] {p} [is|was] {x}. [{V} the {n}|Now {v} the {n}|Please {v} the {n}|{V} it][.|]",
            "[What|Which] {n} [has|is for|belongs to|is at] {x}?", "I need the {n} [for|of] {x}[.|, please.]")),
            v=verb, V=verb.capitalize(), n=noun, x=value, p=parameter)
    return source.spin(source.pick((
        "[[Please |Could you |Can you |Would you |]{v} the {n}|I want to {v} the {n}|Let's {v} the {n}|I need to {v} the {n}|It is time to {v} the {n}] "
        "[with|for|using|where] {l}[.|?|]",
        "[Please |]{v} the {n} with {l}[.|]", "[Call|Use|Run|Try|Start] {t} [with|for|on][:|] {l}[.|]", "{V} the {n}: {c}[.|]", "{c}: {v} the {n}[.|]",
        "[Here is|I have|Take] {l}. [{V} the {n}|Now {v} the {n}][.|]", "The {l}. {V} the {n}[, please.|.]")),
        v=verb, V=verb.capitalize(), n=noun, l=listed, t=name,
        c=", ".join(f"{p.replace('_', ' ')}{source.pick((' ', ': ', '='))}{v}" for p, v in values.items()))


def made_up(source, declared=None):
    """A tool of invented name and parameters, asked for by its verb and noun or by its name."""
    if declared:
        tool = declared.tool
        name = tool["function"]["name"]
        properties = {p: PARAMETERS[p] for p in tool["function"]["parameters"]["properties"]}
        verb, noun = tool["function"]["description"].lower().replace("the ", "").split()[:2]
    else:
        verb, noun = source.pick(words.VERBS), source.pick(words.NOUNS)
        if source.chance(0.5):
            noun = words.term(source)
        name = source.pick((f"{verb}_{noun}", f"{noun}_{verb}", f"{verb}_{noun}", words.identifier(source)))
        properties = {p: PARAMETERS[p] for p in source.sample(list(PARAMETERS), source.pick((1, 1, 1, 2, 2, 3)))}
        tool = declare(source, name, source.pick((f"{verb.capitalize()} the {noun}", f"{verb.capitalize()} {noun}")),
                       {p: made[0] for p, made in properties.items()})
    values = {p: made[1](source) for p, made in properties.items()}
    if len(set(map(str, values.values()))) < len(values):
        return made_up(source, declared)
    asked, listed = made_up_request(source, name, verb, noun, values), named_values(source, values)
    fields = source.sample([p for p in PARAMETERS if p not in values], source.integer(1, 2))
    result = {f: PARAMETERS[f][1](source) for f in fields}
    answer = "The " + words.listing([f"{f.replace('_', ' ')} is {v}" for f, v in result.items()]).replace(" and ", " and the ") + "."
    if len(fields) == 2:
        answer = f"The {fields[0].replace('_', ' ')} is {result[fields[0]]} and the {fields[1].replace('_', ' ')} is {result[fields[1]]}."
    return Use(tool, values, asked, result, answer, source.spin("[And|Also] [with|for] {l}.", l=listed), facts=tuple(result.values()))


def timer(source):
    """A computed argument: the tool wants seconds or minutes, the user says minutes or hours."""
    unit, smaller = source.pick((("minutes", "seconds"), ("hours", "minutes")))
    amount = source.unseen("timer", lambda: source.integer(2, 60 if unit == "minutes" else 24))
    tool = declare(source, source.pick(("set_timer", "start_timer", "timer")), f"Start a timer for a number of {smaller}",
                   {smaller: "integer"})
    working = f"{amount} {unit}: {amount} * 6 = {amount * 6}, so {amount * 60} {smaller}."
    asked = source.spin("[[Set|Start] a timer for {a} {u}.|Timer for {a} {u}.|Count down {a} {u}.]", a=amount, u=unit)
    return Use(tool, {smaller: amount * 60}, asked, {"status": "running"}, "The timer is running.",
               f"And one for {amount} {unit}.", working, ("running",))


def table_for(source):
    """A computed argument: me and some friends."""
    friends = source.unseen("friends", lambda: source.integer(1, 40))
    place, time = words.made_word(source).capitalize(), words.clock(source)
    tool = declare(source, source.pick(("book_table", "reserve_table")), "Book a table in a restaurant",
                   {"restaurant": "string", "people": "integer", "time": "string"})
    with_whom = source.spin("[me and {f} [friends|guests|others]|{f} [friends|guests|others] and me]", f=friends)
    working = f"{friends} and one more: {friends} + 1 = {friends + 1}."
    number = int(words.code_number(source, 2, 4))
    return Use(tool, {"restaurant": place, "people": friends + 1, "time": time},
               source.spin("[Book|Reserve] a table at {p} for {w} at {t}.", p=place, w=with_whom, t=time),
               {"booking": number}, f"The table at {place} is booked, number {number}.",
               source.spin("And at {p} for {w} at {t}.", p=place, w=with_whom, t=time), working, (number,))


def use(source):
    kind = source.integer(0, 19)
    if kind == 0:
        return timer(source)
    if kind == 1:
        return table_for(source)
    return made_up(source) if kind <= 7 else well_known(source)


def another(source, first):
    """A further use of the same tool, or None where there is no sense in one."""
    for entry, row in TABLE.items():
        if first.name in row[0].split():
            parameters = list(first.tool["function"]["parameters"]["properties"])
            if len(parameters) == len(row[2]) and all(p in slot[0].split() for p, slot in zip(parameters, row[2].values())):
                return well_known(source, entry, first)
    if all(p in PARAMETERS for p in first.arguments) and not first.working:
        return made_up(source, first)
    return None


def result_text(source, result):
    """What a tool server sends back: JSON text mostly."""
    if source.chance(0.65):
        return json.dumps(result, ensure_ascii=False)
    return source.pick((", ", "\n")).join(f"{k}: {shown(v)}" for k, v in result.items())
